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
		now, boot, toWall time.Duration // by how much the clocks go on
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
