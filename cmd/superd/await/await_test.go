package await

import (
	"testing"
	"time"

	"superd/control"
)

// TestExited: an end of a run before the wait is none, also if its time is now told differently, as
// after a change of the clock.
func TestExited(t *testing.T) {
	const name = "web"
	at := time.Date(2026, 11, 27, 7, 0, 0, 0, time.UTC)
	status := func(state string, pid int, exit time.Time) control.Status {
		s := control.Status{Name: name, State: state}
		if pid != 0 {
			s.Pid = &pid
		}
		if !exit.IsZero() {
			s.Exit = &control.Exit{At: exit}
		}
		return s
	}
	const running, starting = control.StateRunning, control.StateStarting
	tests := []struct {
		name string
		seen []control.Status
		want bool // whether the last one meets the condition
	}{
		{"it runs", []control.Status{status(running, 1, time.Time{})}, false},
		{"it has ended before", []control.Status{status(running, 1, at), status(running, 1, at.Add(time.Hour))}, false},
		{"it ends", []control.Status{status(running, 1, at), status(starting, 0, at.Add(time.Second))}, true},
		{"it runs again at once", []control.Status{status(running, 1, at), status(running, 2, at.Add(time.Second))}, true},
		{"it starts first", []control.Status{status(starting, 0, at), status(running, 1, at)}, false},
		{"it starts and ends", []control.Status{status(starting, 0, at), status(running, 1, at), status(starting, 2, at)}, true},
		{"the first run ends", []control.Status{status(starting, 0, time.Time{}), status(starting, 0, at)}, true},
		{"it waits to be restarted", []control.Status{status(control.StateBackoff, 0, at)}, true},
		{"it is stopped", []control.Status{status(control.StateStopped, 0, time.Time{})}, true},
	}
	for _, tt := range tests {
		c, err := For("exited")
		if err != nil {
			t.Fatal(err)
		}
		var met bool
		for _, s := range tt.seen {
			if met, err = c.Observe([]control.Status{s}); err != nil {
				t.Fatal(err)
			}
		}
		if met != tt.want {
			t.Errorf("%s: met %v, want %v", tt.name, met, tt.want)
		}
	}
}
