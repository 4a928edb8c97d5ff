package loop

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTimersFireInOrder(t *testing.T) {
	onEach(t, func(r *rig) {
		var got []int
		r.Post(func() {
			for i, d := range []time.Duration{3, 1, 2, 1, 0, -5, 3, 0} {
				r.Root().After(d*time.Millisecond, func() { got = append(got, i) })
			}
			r.Root().After(4*time.Millisecond, r.Stop)
		})
		r.run()
		if want := []int{4, 5, 7, 1, 3, 2, 0, 6}; !slices.Equal(got, want) {
			r.Errorf("timers fired in the order %v, want %v", got, want)
		}
	})
}

func TestTimerIsNeverEarly(t *testing.T) {
	onEach(t, func(r *rig) {
		n := 0
		for d := time.Duration(1); d < 20*time.Millisecond; d = d*3/2 + 1 {
			n++
			armed := r.Now()
			var tm *Timer
			tm = r.Root().After(d, func() {
				if now := r.Now(); now < tm.Due() || tm.Due() < armed+d {
					r.Errorf("a timer of %v armed at %v and due at %v fired at %v", d, armed, tm.Due(), now)
				}
				if tm.Active() {
					r.Error("a timer that fires is still active")
				}
				tm.Stop()
				if n--; n == 0 {
					r.Stop()
				}
			})
			if !tm.Active() {
				r.Error("an armed timer is not active")
			}
		}
		r.run()
	})
}

func TestTimerArmedInATurnFiresInALaterOne(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.open()
		r.fill(fd)
		r.must(r.Root().OnReadable(fd, func() {
			r.empty(fd)
			armed := r.Turns()
			r.Root().After(0, func() {
				if r.Turns() != armed+1 {
					r.Errorf("a timer of 0 armed in turn %d fired in turn %d, want the next", armed, r.Turns())
				}
				r.Stop()
			})
		}))
		r.run()
	})
}

func TestEveryDoesNotDrift(t *testing.T) {
	const period, ticks = time.Millisecond, 40
	onEach(t, func(r *rig) {
		var tm *Timer
		n := time.Duration(0)
		var start time.Duration
		r.Post(func() {
			start = r.Now()
			tm = r.Root().Every(period, func() {
				// Due is the time of the next tick: whatever was missed, a whole number of periods
				// after the start, and the first in the future.
				n = (r.Now() - start) / period
				if want := start + (n+1)*period; tm.Due() != want {
					r.Errorf("at %v the next tick is due at %v, want %v", r.Now()-start, tm.Due()-start, want-start)
				}
				r.spend(period / 3)
				if n >= ticks {
					r.Stop()
				}
			})
			if tm.Due() != start+period {
				r.Errorf("the first tick is due after %v, want %v", tm.Due()-start, period)
			}
		})
		r.run()
	})
}

func TestEveryCoalesces(t *testing.T) {
	v := NewVirtual(1)
	start := v.Now()
	var got []time.Duration
	v.Root().Every(10*time.Second, func() { got = append(got, v.Now()-start) })
	v.RunFor(20 * time.Second)
	v.Advance(35 * time.Second) // to 55 s: the ticks at 30, 40, 50 are missed
	v.RunFor(15 * time.Second)
	want := []time.Duration{10 * time.Second, 20 * time.Second, 55 * time.Second, 60 * time.Second, 70 * time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("ticks at %v, want %v", got, want)
	}
}

func TestEveryRefusesNoPeriod(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Every(0) did not panic")
		}
	}()
	NewVirtual(1).Root().Every(0, func() {})
}

func TestTimerTooFarAway(t *testing.T) {
	v := NewVirtual(1)
	v.Root().After(math.MaxInt64, func() { t.Error("it fired") })
	v.Root().After(time.Second, func() {})
	v.RunFor(1000 * 24 * time.Hour)
}

func TestTimerStoppedByAnother(t *testing.T) {
	onEach(t, func(r *rig) {
		// All are due in one turn. The first stops some of the others, and the tick itself.
		var timers [5]*Timer
		fired := 0
		timers[0] = r.Root().Every(1, func() {
			for _, i := range []int{0, 1, 3} {
				timers[i].Stop()
				timers[i].Stop()
			}
		})
		for i := 1; i < len(timers); i++ {
			timers[i] = r.Root().After(1, func() {
				fired++
				if i == 1 || i == 3 {
					r.Errorf("timer %d fired after it was stopped", i)
				}
			})
		}
		r.spend(time.Microsecond)
		r.Root().After(time.Millisecond, r.Stop)
		r.run()
		if fired != 2 {
			r.Errorf("%d timers fired, want 2", fired)
		}
	})
}

func TestReset(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		play func(r *rig, s *Scope, fire func()) // s is closed after 9 ms
		want []time.Duration                     // when the timer fires, on the virtual loop
	}{
		{"later", func(r *rig, s *Scope, fire func()) { s.After(1*ms, fire).Reset(5 * ms) }, []time.Duration{5 * ms}},
		{"earlier", func(r *rig, s *Scope, fire func()) { s.After(5*ms, fire).Reset(1 * ms) }, []time.Duration{1 * ms}},
		{"stopped", func(r *rig, s *Scope, fire func()) {
			tm := s.After(1*ms, fire)
			tm.Stop()
			tm.Reset(2 * ms)
			if !tm.Active() {
				r.Error("a timer that was set again is not active")
			}
		}, []time.Duration{2 * ms}},
		{"fired", func(r *rig, s *Scope, fire func()) {
			tm := s.After(1*ms, fire)
			s.After(3*ms, func() { tm.Reset(2 * ms) })
		}, []time.Duration{1 * ms, 5 * ms}},
		{"in its own callback", func(r *rig, s *Scope, fire func()) {
			var tm *Timer
			n := 0
			tm = s.After(1*ms, func() {
				fire()
				if n++; n < 3 {
					tm.Reset(2 * ms)
				}
			})
		}, []time.Duration{1 * ms, 3 * ms, 5 * ms}},
		{"of an interval timer", func(r *rig, s *Scope, fire func()) {
			tm := s.Every(3*ms, fire)
			s.After(4*ms, func() { tm.Reset(1 * ms) })
		}, []time.Duration{3 * ms, 5 * ms, 8 * ms}},
		{"when it is due in this very turn", func(r *rig, s *Scope, fire func()) {
			var tm *Timer
			s.After(2*ms, func() { tm.Reset(2 * ms) })
			tm = s.After(2*ms, fire)
		}, []time.Duration{4 * ms}},
		{"to now, which is the next turn", func(r *rig, s *Scope, fire func()) {
			tm := s.After(9*ms, fire)
			s.After(2*ms, func() {
				turn := r.Turns()
				tm.f = func() {
					fire()
					if r.Turns() == turn {
						r.Error("the timer fired in the turn in which it was set")
					}
				}
				tm.Reset(-1)
			})
		}, []time.Duration{2 * ms}},
		{"to never", func(r *rig, s *Scope, fire func()) { s.After(1*ms, fire).Reset(math.MaxInt64) }, nil},
		{"in a closed scope", func(r *rig, s *Scope, fire func()) {
			tm := s.After(1*ms, fire)
			s.Close()
			tm.Reset(1 * ms)
			if tm.Active() {
				r.Error("a timer of a closed scope is active")
			}
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				var got []time.Duration
				var start time.Duration
				r.Post(func() {
					start = r.Now()
					s := r.Root().Child()
					tt.play(r, s, func() { got = append(got, r.Now()-start) })
					r.Root().After(9*ms, func() { s.Close(); r.Stop() })
				})
				r.run()
				if _, virtual := r.world.(simulated); virtual && !slices.Equal(got, tt.want) {
					r.Errorf("the timer fired after %v, want %v", got, tt.want)
				}
				// On a real loop, late timers may fire together with later ones.
				for i := range min(len(got), len(tt.want)) {
					if got[i] < tt.want[i] {
						r.Errorf("the timer fired after %v, want not before %v", got[i], tt.want[i])
					}
				}
			})
		})
	}
}

func TestResetAllocatesNothing(t *testing.T) {
	v := NewVirtual(1)
	tm := v.Root().After(time.Hour, func() {})
	n := testing.AllocsPerRun(100, func() {
		tm.Reset(time.Minute)
		tm.Reset(0)
		v.Step()
	})
	if n != 0 || tm.Active() {
		t.Errorf("%v allocations to set a timer and have it fire, want none", n)
	}
}

func TestMillionTimers(t *testing.T) {
	onEach(t, func(r *rig) {
		n := 1_000_000
		if r.Name() != "TestMillionTimers/epoll" {
			n /= 100 // the poller makes no difference to them
		}
		rng := rand.New(rand.NewPCG(1, 2))
		s := r.Root().Child()
		timers := make([]*Timer, n)
		fired := 0
		var last time.Duration
		for i := range timers {
			var tm *Timer
			d := time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
			if i%10 == 0 {
				d = time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
			}
			tm = s.After(d, func() {
				fired++
				if tm.Due() < last {
					r.Errorf("a timer due at %v fired after one due at %v", tm.Due(), last)
				}
				last = tm.Due()
			})
			timers[i] = tm
		}
		// Half of the distant timers are stopped one by one, the rest with their scope.
		for _, i := range rng.Perm(n)[:n/2] {
			if timers[i].Due() > r.Now()+time.Minute {
				timers[i].Stop()
			}
		}
		r.Root().After(20*time.Millisecond, func() {
			s.Close()
			r.Stop()
		})
		r.run()
		if fired != n/10 || len(r.timers) != 0 {
			r.Errorf("%d timers fired and %d are left, want %d and 0", fired, len(r.timers), n/10)
		}
	})
}

func TestTimerHeap(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var h timerHeap
		var model []*Timer // in the order of firing
		compare := func(a, b *Timer) int {
			if a.due != b.due {
				return int(a.due - b.due)
			}
			return int(a.armed) - int(b.armed)
		}
		for step := range uint64(1000) {
			switch op := rng.IntN(5); {
			case op < 3 || len(h) == 0:
				tm := &Timer{due: time.Duration(rng.IntN(100)), armed: step}
				h.push(tm)
				at, _ := slices.BinarySearchFunc(model, tm, compare)
				model = slices.Insert(model, at, tm)
			case op == 3:
				i := rng.IntN(len(model))
				h.remove(model[i])
				model = slices.Delete(model, i, i+1)
			default:
				tm := h[0].timer
				tm.due += time.Duration(rng.IntN(50))
				tm.armed = step
				h.fix(tm)
				slices.SortFunc(model, compare)
			}
			if len(h) != len(model) || len(h) > 0 && h[0].timer != model[0] {
				t.Fatalf("seed %d, step %d: the heap of %d does not begin with the timer due first", seed, step, len(h))
			}
			for i, e := range h {
				if e.timer.index != i || e.due != e.timer.due {
					t.Fatalf("seed %d, step %d: entry %d is out of step with its timer", seed, step, i)
				}
			}
		}
	}
}
