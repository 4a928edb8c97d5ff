package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

// FuzzTasks runs random histories, one for each seed: trees of tasks that wait for time,
// descriptors, futures and each other, in scopes that are closed, cancelled at any time, and panic
// now and then. Every task has to run once, with each of its deferred functions, and leave nothing
// behind.
func FuzzTasks(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		first := newPlay(t, seed).run()
		if again := newPlay(t, seed).run(); again != first {
			t.Errorf("seed %d gave two histories:\n%s\n%s", seed, first, again)
		}
	})
}

// TestNoGoroutineIsLeft counts goroutines after some histories. The runtime counts one that has
// ended until it is off its stack, hence the wait.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for seed := range uint64(20) {
		newPlay(t, seed).run()
	}
	for start := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// A play is a random history.
type play struct {
	*testing.T
	*loop.Virtual
	seed    uint64
	rng     *rand.Rand
	log     strings.Builder
	players []*player
	scopes  []*loop.Scope
	futures []*Future[int]
	fds     []int
	calm    bool // whether nothing new is begun
}

// A player is a task and its expected state.
type player struct {
	*play
	id       int
	task     *Task
	parent   *player // nil: in a scope
	begun    int
	returned int
	released int // for the scope of the task
}

var errPlayer = errors.New("failed")

func newPlay(t *testing.T, seed uint64) *play {
	p := &play{T: t, Virtual: loop.NewVirtual(seed), seed: seed, rng: rand.New(rand.NewPCG(seed, 2))}
	p.scopes = []*loop.Scope{p.Root()}
	for range 3 {
		p.scopes = append(p.scopes, p.Root().Child())
		p.futures = append(p.futures, &Future[int]{})
		p.fds = append(p.fds, p.NewFD())
	}
	return p
}

func (p *play) fail(format string, args ...any) {
	p.Helper()
	p.Fatalf("seed %d: %s\n%s", p.seed, fmt.Sprintf(format, args...), p.log.String())
}

func (p *play) note(format string, args ...any) {
	fmt.Fprintf(&p.log, format+"\n", args...)
}

func (p *play) pick(n int) int { return p.rng.IntN(n) }

func (p *play) anyone() *player { return p.players[p.pick(len(p.players))] }

func (p *play) run() string {
	ending := []func(){p.end, p.stop}[p.pick(2)]
	if p.survives(p.perform) && p.survives(ending) {
		p.note("quiet")
	}
	// Close continues after a panic, so that it is complete even if there are several.
	p.survives(p.Root().Close)
	for _, q := range p.players {
		if !q.task.Ended() || q.task.next != nil || q.begun != 1 || q.returned != 1 || q.released != 1 {
			p.fail("task %d: ended %v, begun %d times, returned %d times, scope closed %d times",
				q.id, q.task.Ended(), q.begun, q.returned, q.released)
		}
	}
	return p.log.String()
}

// survives calls f and reports whether it returned; false: a task panicked without a recover.
func (p *play) survives(f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			p.mustBePlayed(v)
			p.note("panic")
		}
	}()
	f()
	return true
}

// mustBePlayed panics again if v is a defect.
func (p *play) mustBePlayed(v any) {
	if up, ok := v.(*Panic); ok {
		v = up.Value
	}
	if v != errPlayer { //nolint:errorlint // the value itself is thrown
		p.Logf("seed %d: %v\n%s", p.seed, v, p.log.String())
		panic(v)
	}
}

func (p *play) perform() {
	for range 3 {
		p.begin(nil)
	}
	for range 300 {
		p.Step()
		p.check()
		if p.pick(4) == 0 {
			p.note("callback")
			if p.act(nil) != nil {
				return
			}
		}
	}
}

func (p *play) stop() {
	p.note("stop")
	p.calm = true
	p.Stop()
	p.Step()
}

// end cancels all tasks, triggers what shielded tasks may wait for, and checks that nothing is
// left: a leftover watch would be called without end, a leftover timer would be due.
func (p *play) end() {
	p.note("end")
	p.calm = true
	for _, q := range p.players {
		q.task.Cancel()
	}
	for _, fd := range p.fds {
		p.SetReady(fd, loop.Readable|loop.Writable|loop.Hangup)
	}
	for n := 0; p.Step(); n++ {
		p.check()
		for _, f := range p.futures {
			f.Resolve(0)
		}
		if n > 10_000 {
			p.fail("the loop does not come to rest")
		}
	}
}

// check compares the tree with its expected state.
func (p *play) check() {
	for _, q := range p.players {
		if q.task.Ended() != (q.released == 1) || q.task.Ended() && q.returned != 1 {
			p.fail("task %d: ended %v, returned %d times, scope closed %d times", q.id, q.task.Ended(), q.returned, q.released)
		}
		if q.parent != nil && q.parent.task.Ended() && !q.task.Ended() {
			p.fail("task %d has ended before %d below it", q.parent.id, q.id)
		}
	}
	if s := schedOf(p.Loop); s.current != nil || s.active || s.host != nil {
		p.fail("between turns the scheduler is in task %v, active %v, host %v", s.current, s.active, s.host)
	}
}

// begin starts a task, below parent or in a scope.
func (p *play) begin(parent *player) {
	if p.calm || len(p.players) > 60 {
		return
	}
	q := &player{play: p, id: len(p.players), parent: parent}
	p.players = append(p.players, q)
	if parent != nil {
		p.note("%d begins %d", parent.id, q.id)
		q.task = &Task{} // until Go returns, for tasks that it runs at once
		q.task = parent.task.Go(q.main)
	} else {
		i := p.pick(len(p.scopes))
		p.note("scope %d begins %d", i, q.id)
		q.task = &Task{}
		q.task = Go(p.scopes[i], q.main)
	}
}

func (q *player) main(t *Task) (err error) {
	q.task = t
	q.begun++
	t.Scope().Defer(func() { q.released++ })
	q.note("%d runs at %v", q.id, q.Now())
	defer func() {
		if v := recover(); v != nil {
			q.mustBePlayed(v)
			if q.note("%d panics", q.id); q.pick(3) == 0 {
				panic(v)
			}
			err = errPlayer
		}
	}()
	defer func() {
		q.returned++
		q.note("%d returns, failed: %v", q.id, err != nil)
		for range q.pick(2) {
			q.act(q)
		}
	}()
	for range q.pick(8) {
		if err := q.act(q); err != nil && q.pick(5) != 0 {
			return err
		}
	}
	return nil
}

// act does something at random, in a task or (q is nil) in a callback.
func (p *play) act(q *player) error {
	n := 10
	if q != nil {
		n = 20
	}
	switch n := p.pick(n); n {
	case 0, 1, 2:
		parent := q
		if p.pick(4) == 0 {
			parent = p.anyone()
		} else if p.pick(4) == 0 {
			parent = nil
		}
		p.begin(parent)
	case 3, 4:
		one := p.anyone()
		p.note("cancel %d", one.id)
		one.task.Cancel()
	case 5:
		i := p.pick(len(p.futures))
		p.note("resolve %d", i)
		p.futures[i].Resolve(i)
		p.futures[i] = &Future[int]{}
	case 6:
		p.SetReady(p.fds[p.pick(len(p.fds))], loop.Ready(p.pick(8)))
	case 7:
		if i := 1 + p.pick(len(p.scopes)-1); p.pick(3) == 0 {
			p.note("close scope %d", i)
			p.scopes[i].Close()
			p.scopes[i] = p.Root().Child()
		}
	case 8, 9:
	case 10:
		if p.pick(12) == 0 {
			panic(errPlayer)
		}
		return errPlayer
	default:
		return q.wait(n - 11)
	}
	return nil
}

// wait makes a blocking call, or one with more acts in it.
func (q *player) wait(kind int) error {
	t, p := q.task, q.play
	q.note("%d waits: %d", q.id, kind)
	d := time.Duration(p.pick(4))
	switch kind {
	case 0, 1:
		return t.Sleep(d)
	case 2:
		return t.Yield()
	case 3:
		if fd := p.fds[p.pick(len(p.fds))]; p.pick(2) == 0 {
			return t.Readable(fd)
		} else {
			return t.Writable(fd)
		}
	case 4:
		_, err := p.futures[p.pick(len(p.futures))].Await(t)
		return err
	case 5:
		if one := p.anyone(); !one.above(q) {
			return one.task.Join(t)
		}
		return nil
	case 6:
		var some []*Task
		for range p.pick(4) {
			if one := p.anyone(); !one.above(q) {
				some = append(some, one.task)
			}
		}
		if p.pick(2) == 0 {
			return t.Gather(some...)
		}
		return errors.Join(t.GatherAll(some...)...)
	case 7:
		return t.Timeout(d, func() error { return errors.Join(q.act(q), q.act(q)) })
	default:
		return t.Shield(func() error { return errors.Join(q.act(q), q.act(q)) })
	}
}

// above reports whether r is q or an ancestor of it.
func (r *player) above(q *player) bool {
	for ; q != nil; q = q.parent {
		if q == r {
			return true
		}
	}
	return false
}
