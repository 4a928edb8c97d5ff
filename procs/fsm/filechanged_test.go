package fsm

import "testing"

// TestFileChanged: a change of files leads to what a changed definition leads to, and is the
// reason.
func TestFileChanged(t *testing.T) {
	for state := range StateCount {
		m, other := New(testProgram(), nil), New(testProgram(), nil)
		m.SetDesired(true, By(ActorConfiguration))
		m.state, other.state = state, state
		m.restartAttempts, m.startLimitHit = 3, true
		got, want := m.FileChanged("src/a.js", free), other.WantRestart(By(ActorReload), false, free)
		if got.To != want.To || m.RestartAttempts() != 0 || m.StartLimitHit() || !m.Desired().By.Is(ActorWatch) {
			t.Errorf("a change of files in %s leads to %s with %d attempts, wanted by %v, want %s", state.Name(), got.To.Name(), m.RestartAttempts(), m.Desired(), want.To.Name())
		}
		if text, want := m.StartReason().String(), "started again: file changed: src/a.js"; text != want {
			t.Errorf("in %s: reason of the start %q, want %q", state.Name(), text, want)
		}
		stops := m.StateReason().Kind == ReasonStoppingToRestart
		if text, want := m.StateReason().String(), "restart requested by watch, file changed: src/a.js"; stops && text != want {
			t.Errorf("in %s: reason of the state %q, want %q", state.Name(), text, want)
		}
	}
}
