package await

import (
	"testing"

	"superd/control"
)

// TestNotWell: which instances ctl ready without names takes for ready.
func TestNotWell(t *testing.T) {
	status := func(state, kind string, healthy *bool) *control.Status {
		return &control.Status{State: state, ReasonKind: &kind, Healthy: healthy}
	}
	for _, tt := range []struct {
		s    *control.Status
		want string
	}{
		{status(control.StateRunning, "started", nil), ""},
		{status(control.StateRunning, "started", new(true)), ""},
		{status(control.StateRunning, "started", new(false)), "unhealthy"},
		{status(control.StateStopped, "stopped", nil), ""},
		{status(control.StateExited, "exit", nil), ""},
		{status(control.StateWaiting, control.ReasonWaitsForSchedule, nil), ""},
		{status(control.StateWaiting, control.ReasonWaitsForConnection, nil), ""},
		{status(control.StateWaiting, "waits", nil), "waiting"},
		{status(control.StateStarting, "started", nil), "starting"},
		{status(control.StateBackoff, "exit", nil), "backoff"},
		{status(control.StateFailed, "exit", nil), "failed"},
		{&control.Status{State: control.StateWaiting}, "waiting"},
	} {
		if got := notWell(tt.s); got != tt.want {
			t.Errorf("%s (%v), healthy %v: %q, want %q", tt.s.State, tt.s.ReasonKind, tt.s.Healthy, got, tt.want)
		}
	}
}
