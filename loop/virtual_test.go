package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestVirtualStep(t *testing.T) {
	v := NewVirtual(1)
	if v.Step() {
		t.Error("Step of an empty loop returned true")
	}
	start, wall := v.Now(), v.Wall()
	var got []string
	note := func(s string) func() {
		return func() { got = append(got, fmt.Sprint(s, " ", v.Now()-start)) }
	}
	fd := v.NewFD()
	if _, err := v.Root().OnReadable(fd, func() { note("read")(); v.SetReady(fd, 0) }); err != nil {
		t.Fatal(err)
	}
	v.Root().After(time.Hour, note("timer"))
	v.Post(note("work"))
	v.Post(func() { v.SetReady(fd, Readable) })
	steps := 0
	for v.Step() {
		steps++
	}
	if want := []string{"work 0s", "read 0s", "timer 1h0m0s"}; !slices.Equal(got, want) || steps != 3 {
		t.Errorf("%d steps: %q, want 3: %q", steps, got, want)
	}
	if d := v.Wall().Sub(wall); d != time.Hour {
		t.Errorf("the wall clock went on by %v, want 1h", d)
	}
	v.StepWall(-2 * time.Hour)
	if d, now := v.Wall().Sub(wall), v.Now()-start; d != -time.Hour || now != time.Hour {
		t.Errorf("after StepWall(-2h) the clocks are at %v and %v, want -1h and 1h", d, now)
	}
}

func TestVirtualRunFor(t *testing.T) {
	v := NewVirtual(1)
	start := v.Now()
	ticks := 0
	v.Root().Every(time.Minute, func() { ticks++; v.Post(func() {}) })
	v.RunFor(time.Hour)
	if d := v.Now() - start; d != time.Hour || ticks != 60 {
		t.Errorf("RunFor(1h) took %v and had %d ticks, want 1h and 60", d, ticks)
	}
	v.RunFor(59 * time.Second)
	if d := v.Now() - start; d != time.Hour+59*time.Second || ticks != 60 {
		t.Errorf("RunFor(59s) went to %v and %d ticks, want 1h0m59s and 60", d, ticks)
	}
	v.Root().After(0, v.Stop)
	v.RunFor(time.Hour)
	if v.Step() || !v.Root().Closed() || ticks != 60 {
		t.Errorf("after Stop: root closed %v, %d ticks", v.Root().Closed(), ticks)
	}
}

func TestVirtualTimePassesForABusyLoop(t *testing.T) {
	v := NewVirtual(1)
	fd := v.NewFD()
	v.SetReady(fd, Readable)
	if _, err := v.Root().OnReadable(fd, func() {}); err != nil {
		t.Fatal(err)
	}
	fired := false
	v.Root().After(10*time.Millisecond, func() { fired = true })
	v.RunFor(20 * time.Millisecond)
	if !fired {
		t.Error("a timer did not fire beside a descriptor that is always ready")
	}
}

func TestVirtualDescriptors(t *testing.T) {
	v := NewVirtual(1)
	a, b, c := v.NewFD(), v.NewFD(), v.NewFD()
	v.CloseFD(c)
	v.CloseFD(a)
	d, e, f := v.NewFD(), v.NewFD(), v.NewFD()
	if got, want := []int{a, b, c, d, e, f}, []int{3, 4, 5, 3, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("descriptors %v, want %v", got, want)
	}
	if n := v.OpenFDs(); n != 4 {
		t.Errorf("OpenFDs() = %d, want 4", n)
	}
	v.CloseFD(b)
	defer func() {
		if r, want := fmt.Sprint(recover()), "loop: close descriptor 4: bad file descriptor"; r != want {
			t.Errorf("closing twice: %s, want a panic, %s", r, want)
		}
	}()
	v.CloseFD(b)
}

// TestVirtualReplays runs random histories: the same seed has to give the same history, and no
// history may break the rules of the loop.
func TestVirtualReplays(t *testing.T) {
	const seeds = 50
	histories := make(map[string]bool)
	for seed := range uint64(seeds) {
		first := newHistory(t, seed).run()
		if again := newHistory(t, seed).run(); again != first {
			t.Fatalf("seed %d gave two histories:\n%s\n%s", seed, first, again)
		}
		histories[first] = true
	}
	if len(histories) != seeds {
		t.Errorf("%d seeds gave %d histories", seeds, len(histories))
	}
}

// A history is a random one: each callback acts at random.
type history struct {
	*testing.T
	*Virtual
	seed     uint64
	rng      *rand.Rand
	log      strings.Builder
	scopes   []*Scope
	watches  []*historyWatch
	timers   []*Timer
	fds      []int
	deferred int
	released int
	serial   int
}

// A historyWatch is level-triggered and has to be called while its descriptor is readable.
type historyWatch struct {
	*Watch
	scope   *Scope
	fd      int
	called  uint64 // turn
	stopped bool
}

func newHistory(t *testing.T, seed uint64) *history {
	v := NewVirtual(seed)
	return &history{
		T: t, Virtual: v, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)),
		scopes: []*Scope{v.Root()},
	}
}

func (h *history) fail(format string, args ...any) {
	h.Helper()
	h.Fatalf("seed %d, turn %d: %s", h.seed, h.Turns(), fmt.Sprintf(format, args...))
}

func (h *history) run() string {
	for range 20 {
		h.act()
	}
	for range 200 {
		h.Step()
		h.check()
		if h.rng.IntN(3) == 0 {
			h.act()
		}
	}
	h.Stop()
	h.Step()
	if h.deferred != h.released || len(h.Loop.timers) != 0 {
		h.fail("%d of %d deferred functions ran and %d timers are left", h.released, h.deferred, len(h.Loop.timers))
	}
	for fd, sl := range h.slots {
		if sl.newest != nil {
			h.fail("descriptor %d is still watched", fd)
		}
	}
	return h.log.String()
}

// check looks for a watch that starves, and for registrations without a watch.
func (h *history) check() {
	for _, w := range h.watches {
		if !w.stopped && !w.scope.Closed() && h.Turns() > w.called+2 {
			h.fail("watch of descriptor %d, readable since turn %d, was not called", w.fd, w.called)
		}
	}
	for fd, f := range h.kernel.files {
		watched := fd < len(h.slots) && h.slots[fd].newest != nil
		if f != nil && f.interest != nil && !watched {
			h.fail("descriptor %d is registered and not watched", fd)
		}
	}
}

// event records a callback, and acts. It must not be called for a closed scope.
func (h *history) event(what string, s *Scope) {
	h.serial++
	fmt.Fprintf(&h.log, "%d %v %s\n", h.Turns(), h.Now(), what)
	if s.Closed() {
		h.fail("%s was called in a closed scope", what)
	}
	for range h.rng.IntN(3) {
		h.act()
	}
}

func (h *history) act() {
	s := h.scopes[h.rng.IntN(len(h.scopes))]
	id := h.serial
	h.serial++
	switch h.rng.IntN(12) {
	case 0:
		if len(h.scopes) < 30 {
			h.scopes = append(h.scopes, s.Child())
		}
	case 1:
		if s != h.Root() {
			s.Close()
			h.scopes = slices.DeleteFunc(h.scopes, (*Scope).Closed)
		}
	case 2:
		h.deferred++
		s.Defer(func() { h.released++; fmt.Fprintf(&h.log, "released %d\n", id) })
	case 3:
		s.Post(func() { h.event(fmt.Sprint("work ", id), s) })
	case 4:
		h.timers = append(h.timers, s.After(time.Duration(h.rng.IntN(3)), func() {
			h.event(fmt.Sprint("timer ", id), s)
		}))
	case 5:
		if len(h.timers) < 40 {
			h.timers = append(h.timers, s.Every(time.Duration(1+h.rng.IntN(5)), func() {
				h.event(fmt.Sprint("tick ", id), s)
			}))
		}
	case 6, 7:
		if len(h.timers) > 0 {
			i := h.rng.IntN(len(h.timers))
			h.timers[i].Stop()
			h.timers = slices.Delete(h.timers, i, i+1)
		}
	case 8, 9:
		h.open(s)
	case 10:
		h.close()
	case 11:
		if len(h.watches) > 0 {
			w := h.watches[h.rng.IntN(len(h.watches))]
			w.stopped = true
			w.Stop()
		}
	}
}

// open watches a new descriptor that is readable, some twice.
func (h *history) open(s *Scope) {
	if len(h.fds) > 20 {
		return
	}
	fd := h.NewFD()
	h.fds = append(h.fds, fd)
	h.SetReady(fd, Readable)
	for range 1 + h.rng.IntN(2) {
		w := &historyWatch{scope: s, fd: fd, called: h.Turns()}
		var err error
		w.Watch, err = s.OnReadable(fd, func() {
			if w.stopped {
				h.fail("watch of descriptor %d was called after it was stopped", fd)
			}
			if w.called == h.Turns() {
				h.fail("watch of descriptor %d was called twice in a turn, or in the one that made it", fd)
			}
			w.called = h.Turns()
			h.event(fmt.Sprint("read ", fd), s)
		})
		if s.Closed() != (err != nil) {
			h.fail("watch descriptor %d in a scope that is closed %v: %v", fd, s.Closed(), err)
		}
		if err == nil {
			h.watches = append(h.watches, w)
		}
	}
}

// close closes a descriptor, with its watches stopped before or not at all.
func (h *history) close() {
	if len(h.fds) == 0 {
		return
	}
	i := h.rng.IntN(len(h.fds))
	fd := h.fds[i]
	h.fds = slices.Delete(h.fds, i, i+1)
	stop := h.rng.IntN(2) == 0
	h.watches = slices.DeleteFunc(h.watches, func(w *historyWatch) bool {
		if w.fd != fd {
			return false
		}
		if stop {
			w.stopped = true
			w.Stop()
		}
		return true
	})
	h.CloseFD(fd)
}

func TestStepRunsAllThatIsPosted(t *testing.T) {
	v := NewVirtual(1)
	ran := 0
	for range 3 * maxShare {
		v.Post(func() { ran++ })
	}
	steps := 0
	for v.Step() {
		steps++
	}
	if ran != 3*maxShare || steps != 3 {
		t.Errorf("%d of %d posted functions ran in %d steps, want all in 3", ran, 3*maxShare, steps)
	}
}
