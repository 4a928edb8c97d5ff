package loop

import (
	"testing"
	"time"
)

func TestClockChanges(t *testing.T) {
	const hour = time.Hour
	tests := []struct {
		name              string
		change            func(*Virtual)
		now, boot, toWall time.Duration // expected changes of the clocks
		calls             int
	}{
		{"time passes", func(v *Virtual) { v.RunFor(hour) }, hour, hour, hour, 0},
		{"the clock is set forward", func(v *Virtual) { v.StepWall(hour) }, 0, 0, hour, 1},
		{"the clock is set back", func(v *Virtual) { v.StepWall(-hour) }, 0, 0, -hour, 1},
		{"the machine sleeps", func(v *Virtual) { v.Sleep(hour) }, 0, hour, hour, 1},
		{"two changes are one call", func(v *Virtual) { v.Sleep(hour); v.StepWall(hour) }, 0, hour, 2 * hour, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewVirtual(1)
			calls := 0
			if _, err := v.Root().OnClockChange(func() { calls++ }); err != nil {
				t.Fatal(err)
			}
			now, boot, wall := v.Now(), v.Boot(), v.Wall()
			tt.change(v)
			v.RunFor(0)
			if a, b, c := v.Now()-now, v.Boot()-boot, v.Wall().Sub(wall); a != tt.now || b != tt.boot || c != tt.toWall || calls != tt.calls {
				t.Errorf("now, boot, wall went on by %v, %v, %v and %d calls came, want %v, %v, %v and %d",
					a, b, c, calls, tt.now, tt.boot, tt.toWall, tt.calls)
			}
		})
	}
}

func TestClockWatchStops(t *testing.T) {
	v := NewVirtual(1)
	scope := v.Root().Child()
	calls := ""
	watch := func(s *Scope, name string, also func()) *ClockWatch {
		w, err := s.OnClockChange(func() { calls += name; also() })
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	var second *ClockWatch
	watch(v.Root(), "a", func() { second.Stop() })
	second = watch(v.Root(), "b", func() {})
	watch(scope, "c", scope.Close)
	v.StepWall(1)
	v.RunFor(0)
	v.StepWall(1)
	v.RunFor(0)
	if calls != "aca" || len(v.clocks) != 1 {
		t.Errorf("calls %q and %d watches are left, want aca and 1", calls, len(v.clocks))
	}
	watch(scope, "d", func() {})
	if len(v.clocks) != 1 {
		t.Error("a closed scope watches the clock")
	}
}

// TestClocksOfATurn: the clocks are those of the begin of the turn, whenever in the turn they are
// read: however long it takes, no time passes in it.
func TestClocksOfATurn(t *testing.T) {
	const slow, unsure = 100 * time.Millisecond, 20 * time.Millisecond
	onEach(t, func(r *rig) {
		same := func(what string, a, b Clocks) {
			r.Helper()
			if wall, boot := b.Wall.Sub(a.Wall)-(b.Now-a.Now), (b.Boot-a.Boot)-(b.Now-a.Now); wall.Abs() > unsure || boot.Abs() > unsure {
				r.Errorf("%s: the wall clock has gone on by %v more than the loop's, CLOCK_BOOTTIME by %v", what, wall, boot)
			}
		}
		before := r.Clocks()
		if late := r.Now() - before.Now; late < 0 {
			r.Errorf("outside of a turn: Clocks are %v ahead of Now", -late)
		}
		var first Clocks
		r.Post(func() {
			r.spend(slow)
			first = r.Clocks()
			if first.Now != r.Now() {
				r.Errorf("Clocks().Now = %v, Now() = %v", first.Now, r.Now())
			}
			same("a slow turn", before, first)
			r.spend(slow)
			if again := r.Clocks(); again != first || r.Wall() != first.Wall || r.Boot() != first.Boot {
				r.Errorf("later in the turn Clocks() = %v, want %v", again, first)
			}
			if got, want := r.WallAt(r.Now()-time.Hour), first.Wall.Add(-time.Hour); got != want {
				r.Errorf("WallAt(an hour ago) = %v, want %v", got, want)
			}
			r.Post(func() {
				c := r.Clocks()
				if c.Now-first.Now < 2*slow {
					r.Errorf("the next turn begins %v later, want at least %v", c.Now-first.Now, 2*slow)
				}
				same("the next turn", first, c)
				r.Stop()
			})
		})
		r.run()
	})
}

// TestWallAtFollows: a change of the clock changes what it reads at an earlier time, also if it
// comes in small steps.
func TestWallAtFollows(t *testing.T) {
	v := NewVirtual(1)
	first := v.WallAt(0)
	v.StepWall(time.Hour)
	if got := v.WallAt(0).Sub(first); got != time.Hour {
		t.Errorf("an hour later: %v", got)
	}
	for range 100 {
		v.StepWall(time.Millisecond / 10)
	}
	if got := v.WallAt(0).Sub(first) - time.Hour - 10*time.Millisecond; got.Abs() >= time.Millisecond {
		t.Errorf("after small steps it is off by %v", got)
	}
}
