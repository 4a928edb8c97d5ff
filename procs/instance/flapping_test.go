package instance

import (
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/host/hosttest"
	"superd/procs/instance/flapping"
)

// flapped returns the states of the events of flapping.
func flapped(b *bench) (states []string) {
	for _, e := range b.events {
		if e.Kind == eventlog.Flapping {
			states = append(states, e.State)
		}
	}
	return states
}

// TestFlapping: an instance flaps from the fifth restart within five minutes on, also under a
// successor, until it was ready for five minutes or is down.
func TestFlapping(t *testing.T) {
	tests := []struct {
		name  string
		every time.Duration // between two failures
		times int
		then  func(b *bench)
		want  []string
	}{
		{"four restarts", time.Second, 4, nil, nil},
		{"five restarts", time.Second, 5, nil, []string{"begun"}},
		{"more are the same", time.Second, 9, nil, []string{"begun"}},
		{"now and then is not often", 2 * time.Minute, 9, nil, nil},
		{"it stays up", time.Second, 5, func(b *bench) { b.v.RunFor(flapping.Window + time.Second) }, []string{"begun", "over"}},
		{"it does not stay up", time.Second, 5, func(b *bench) {
			b.v.RunFor(flapping.Window - 10*time.Second)
			exit(1)(b)
			b.v.RunFor(flapping.Window - time.Second)
		}, []string{"begun"}},
		{"it is stopped", time.Second, 5, func(b *bench) {
			b.stop()
			b.v.RunFor(time.Minute)
		}, []string{"begun", "over"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			program := testProgram()
			program.Restart = config.RestartAlways
			program.Backoff = config.Backoff{Initial: time.Millisecond, Max: time.Millisecond, Factor: 1, ResetAfter: time.Second}
			b := newBench(t, hosttest.FaultMix{}, program)
			b.start()
			b.v.RunFor(time.Second)
			for range tt.times {
				exit(1)(b)
				b.v.RunFor(tt.every)
			}
			if tt.then != nil {
				tt.then(b)
			}
			got := flapped(b)
			if !slices.Equal(got, tt.want) {
				t.Errorf("the events are %q, want %q", got, tt.want)
			}
			if flaps := b.in.FlappingSince() != 0; flaps != (len(got) == 1) {
				t.Errorf("it flaps: %v, after the events %q", flaps, got)
			}
			if v := b.in.Snapshot().Flapping; (v != nil && v.Since != 0) != (len(got) == 1) {
				t.Errorf("a successor learns %+v, after the events %q", v, got)
			}
		})
	}
}
