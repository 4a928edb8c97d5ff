package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

// A bench is a prober on a virtual loop.
type bench struct {
	testing.TB
	*loop.Virtual
	prober  *Prober
	start   time.Duration
	running int // number of checks
	most    int // greatest number of checks at a time
}

func newBench(t testing.TB, limit int) *bench {
	v := loop.NewVirtual(1)
	return &bench{TB: t, Virtual: v, prober: New(v.Loop, limit, 1), start: v.Now()}
}

// A target answers checks after a while. A stopped check ends after another while.
type target struct {
	*bench
	takes   time.Duration
	lingers time.Duration
	queued  bool              // checks never leave the queue
	answer  func(n int) error // result of the n-th check, counted from 0; nil: they pass
	began   []time.Duration   // since the start of the bench
	stopped int
}

func (t *target) Check(done func(error)) (stop func() (begun bool)) {
	var err error
	if t.answer != nil {
		err = t.answer(len(t.began))
	}
	t.began = append(t.began, t.Now()-t.start)
	t.running++
	t.most = max(t.most, t.running)
	end := func() { t.running--; done(err) }
	timer := t.Root().After(t.takes, end)
	return func() bool {
		if timer.Active() {
			t.stopped++
			timer.Stop()
			timer = t.Root().After(t.lingers, end)
		}
		return !t.queued
	}
}

// results records results as text.
func (b *bench) results(list *[]string) func(Result) {
	return func(r Result) {
		*list = append(*list, fmt.Sprint([]string{"passed", "failed", "void"}[r.Outcome], " ", r.Took, " ", r.Reason))
	}
}

func TestResults(t *testing.T) {
	refused := errors.New("connect to 127.0.0.1:80: connection refused")
	tests := []struct {
		name    string
		target  target
		happens func(*bench)
		want    string
	}{
		{"it answers", target{takes: 20 * time.Millisecond}, nil, "passed 20ms "},
		{"it refuses", target{answer: func(int) error { return refused }}, nil, "failed 0s " + refused.Error()},
		{"it hangs", target{takes: time.Hour}, nil, "failed 2s no answer within 2s"},
		{"it has no turn", target{takes: time.Hour, queued: true}, nil, "void 2s not begun within 2s"},
		{"superd lacks something", target{answer: func(int) error { return Uncounted{errors.New("too many open files")} }}, nil, "void 0s too many open files"},
		{"terminal escapes", target{answer: func(int) error { return errors.New("HTTP 500: \x1b]0;x\a" + strings.Repeat("y", 500)) }}, nil,
			"failed 0s " + `HTTP 500: \x1b]0;x\x07` + strings.Repeat("y", 177) + "…"},
		{"the machine sleeps and it hangs then", target{takes: time.Hour}, func(b *bench) { b.Root().After(time.Second, func() { b.Sleep(time.Hour) }) },
			"void 2s the machine slept"},
		{"the machine sleeps and it answers then", target{takes: time.Second}, func(b *bench) { b.Root().After(time.Millisecond, func() { b.Sleep(time.Hour) }) },
			"void 1s the machine slept"},
		{"the clock is set", target{takes: time.Second}, func(b *bench) { b.Root().After(time.Millisecond, func() { b.StepWall(time.Hour) }) }, "passed 1s "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, 10)
			tt.target.bench = b
			if tt.happens != nil {
				tt.happens(b)
			}
			var got []string
			b.prober.Start(b.Root().Child(), &tt.target, Options{Interval: 10 * time.Second, Timeout: 2 * time.Second, Eager: true}, b.results(&got))
			for len(got) == 0 && b.Step() {
			}
			if got[0] != tt.want {
				t.Errorf("got  %q\nwant %q", got[0], tt.want)
			}
		})
	}
}

// TestIntervals: checks begin at their intervals.
func TestIntervals(t *testing.T) {
	const interval = 8 * time.Second
	b := newBench(t, 10)
	steady := &target{bench: b, takes: time.Second}
	b.prober.Start(b.Root().Child(), steady, Options{Interval: interval, Timeout: 2 * time.Second}, func(Result) {})
	eager := &target{bench: b}
	probe := b.prober.Start(b.Root().Child(), eager, Options{Interval: interval, Timeout: 2 * time.Second, Eager: true}, func(Result) {})
	b.RunFor(100 * interval)
	if n := len(steady.began); n < 95 || n > 105 || steady.began[0] > interval {
		t.Errorf("%d checks in 100 intervals, the first after %v", n, steady.began[0])
	}
	for i := 1; i < len(steady.began); i++ {
		if pause := steady.began[i] - steady.began[i-1]; pause < interval*9/10 || pause > interval*11/10 {
			t.Errorf("check %d begins %v after the one before", i, pause)
		}
	}
	for i, pause := range []time.Duration{interval / 32, interval / 16, interval / 8, interval / 4, interval / 2, interval} {
		if got := eager.began[i+1] - eager.began[i]; got < pause/2 || got > pause*3/2 {
			t.Errorf("eager check %d begins %v after the one before, want about %v", i+1, got, pause)
		}
	}
	if eager.began[0] != 0 {
		t.Errorf("an eager probe begins after %v", eager.began[0])
	}
	if next, ok := probe.Next(); !ok || next < b.Now() || next > b.Now()+interval*11/10 {
		t.Errorf("Next() = %v, %v at %v", next, ok, b.Now())
	}
}

// TestManyWaitForOnePort starts 200 programs at once that are ready when one port answers: there
// are never more checks at a time than the limit, and soon they are spread.
func TestManyWaitForOnePort(t *testing.T) {
	const programs, limit = 200, 40
	b := newBench(t, limit)
	ready := 0
	up := false
	var began []time.Duration
	for range programs {
		scope := b.Root().Child()
		tg := &target{bench: b, takes: 5 * time.Millisecond, answer: func(int) error {
			began = append(began, b.Now()-b.start)
			if up {
				return nil
			}
			return errors.New("refused")
		}}
		b.prober.Start(scope, tg, Options{Interval: time.Second, Timeout: 2 * time.Second, Eager: true}, func(r Result) {
			if r.Outcome == Passed {
				ready++
				scope.Close()
			}
		})
	}
	b.RunFor(20 * time.Second)
	in := map[time.Duration]int{}
	for _, at := range began {
		in[at/(100*time.Millisecond)]++
	}
	for slot, n := range in {
		if slot > 20 && n > programs/4 {
			t.Errorf("%d checks begin within 100ms, after %v", n, slot*100*time.Millisecond)
		}
	}
	up = true
	b.RunFor(1200 * time.Millisecond)
	if ready != programs || b.most > limit || b.running != 0 || b.prober.heavy.running != 0 {
		t.Errorf("%d ready, %d checks at a time, %d running, %d slots taken", ready, b.most, b.running, b.prober.heavy.running)
	}
}

// TestHangingProbe: a check that does not end after its stop fails its own program, and blocks no
// slots of others.
func TestHangingProbe(t *testing.T) {
	b := newBench(t, 1)
	var hangResults, good []string
	hanging := &target{bench: b, takes: time.Hour, lingers: 35 * time.Second}
	b.prober.Start(b.Root().Child(), hanging, Options{Interval: 10 * time.Second, Timeout: 2 * time.Second, Eager: true}, b.results(&hangResults))
	fine := &target{bench: b, takes: time.Millisecond}
	b.prober.Start(b.Root().Child(), fine, Options{Interval: 10 * time.Second, Timeout: 2 * time.Second}, b.results(&good))
	for len(hanging.began) < 2 && b.Step() {
	}
	if n := len(hangResults); n < 4 || hangResults[0] != "failed 2s no answer within 2s" || !strings.HasPrefix(hangResults[1], "failed 0s the previous check has been running for ") {
		t.Errorf("%d results of the one that hangs: %q", n, hangResults)
	}
	if at := hanging.began[1]; at < 37*time.Second || b.most != 2 {
		t.Errorf("checked again after %v, %d checks at a time", at, b.most)
	}
	if n := len(good); n < 3 || slices.ContainsFunc(good, func(s string) bool { return s != "passed 1ms " }) {
		t.Errorf("the other one: %q", good)
	}
}

// TestAnswersThatTakeLong: light checks that wait for their answers delay no others, unless there
// are too many.
func TestAnswersThatTakeLong(t *testing.T) {
	const limit = 2
	for _, light := range []bool{true, false} {
		b := newBench(t, limit)
		o := Options{Interval: 10 * time.Second, Timeout: 5 * time.Second, Light: light}
		var scopes []*loop.Scope
		hang := func(n int) {
			for range n {
				scope := b.Root().Child()
				b.prober.Start(scope, &target{bench: b, takes: time.Hour}, o, func(Result) {})
				scopes = append(scopes, scope)
			}
		}
		hang(20)
		fine := &target{bench: b, takes: time.Millisecond}
		b.prober.Start(b.Root().Child(), fine, o, func(Result) {})
		b.RunFor(10 * time.Minute)
		if n := len(fine.began); light != (n > 55) || light != (b.most > limit+1) {
			t.Errorf("light %v: %d checks of one that answers in 10m beside 20 that don't, %d at a time", light, n, b.most)
		}
		if light {
			hang(2 * maxDetached)
			b.RunFor(time.Minute)
			if b.most > maxDetached+limit {
				t.Errorf("%d checks at a time", b.most)
			}
		}
		for _, scope := range scopes {
			scope.Close()
		}
		b.RunFor(time.Minute)
		if l := b.prober.light; l.running != 0 || l.detached != 0 || b.running != 0 {
			t.Errorf("%d places taken, %d away, %d checks run after the end", l.running, l.detached, b.running)
		}
	}
}

// TestEagerFirst: a readiness check precedes health checks.
func TestEagerFirst(t *testing.T) {
	b := newBench(t, 1)
	o := Options{Interval: time.Second, Timeout: time.Minute}
	for range 10 { // each has a slot for 10 s
		b.prober.Start(b.Root().Child(), &target{bench: b, takes: 10 * time.Second}, o, func(Result) {})
	}
	b.RunFor(5 * time.Second)
	o.Eager = true
	eager := &target{bench: b}
	b.prober.Start(b.Root().Child(), eager, o, func(Result) {})
	b.RunFor(10 * time.Second)
	if len(eager.began) == 0 {
		t.Error("the eager check did not run next")
	}
}

// TestClosedScope ends a probe in each of its states: no result comes any more, the slot is free,
// the check is stopped.
func TestClosedScope(t *testing.T) {
	for _, at := range []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 4 * time.Second} {
		b := newBench(t, 1)
		first := b.prober.Start(b.Root(), &target{bench: b, takes: time.Second}, Options{Interval: 24 * time.Hour, Timeout: 5 * time.Second, Eager: true}, func(Result) {})
		scope := b.Root().Child()
		waits := &target{bench: b, takes: time.Hour, lingers: time.Minute}
		calls := 0
		b.prober.Start(scope, waits, Options{Interval: time.Hour, Timeout: 2 * time.Second, Eager: true}, func(Result) { calls++ })
		b.RunFor(at)
		scope.Close()
		before := calls
		b.RunFor(10 * time.Minute)
		if calls != before || b.prober.heavy.running != 0 || b.running != 0 || waits.stopped != len(waits.began) {
			t.Errorf("closed after %v: %d more results, %d places taken, %d checks run, %d of %d stopped",
				at, calls-before, b.prober.heavy.running, b.running, waits.stopped, len(waits.began))
		}
		if first.began == 0 {
			t.Error("the first probe had no check")
		}
	}
}

func TestHealth(t *testing.T) {
	h := Health{Failures: 3}
	steps := []struct {
		outcome                 Outcome
		changed, healthy, known bool
	}{
		{Failed, false, false, false},
		{Void, false, false, false},
		{Passed, true, true, true},
		{Failed, false, true, true},
		{Failed, false, true, true},
		{Void, false, true, true},
		{Passed, false, true, true},
		{Failed, false, true, true},
		{Failed, false, true, true},
		{Failed, true, false, true},
		{Failed, false, false, true},
		{Passed, true, true, true},
	}
	for i, s := range steps {
		changed := h.Note(Result{Outcome: s.outcome})
		if healthy, known := h.Healthy(); changed != s.changed || healthy != s.healthy || known != s.known {
			t.Errorf("step %d: changed %v, healthy %v, known %v, want %+v", i, changed, healthy, known, s)
		}
	}
	if h = (Health{Failures: 1}); !h.Note(Result{Outcome: Failed}) || h.FailuresInRow() != 1 {
		t.Error("the first failure of one is no change")
	}
}
