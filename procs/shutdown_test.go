package procs

import (
	"testing"

	"superd/procs/fsm"
)

// TestShutdownOfMany: each turn stops only a share of the instances, so that posted work is done
// meanwhile. All get their signals before the first exit is handled; then superd ends.
func TestShutdownOfMany(t *testing.T) {
	const programs = 5*maxStopBatch + 1
	v, s := quickSupervisor(graphConfig(programs, func(int, int) []int { return nil }))
	ended := false
	s.Start(func() { ended = true })
	for inspect(s).inState(fsm.Running) < programs {
		v.RunFor(1)
	}
	s.Shutdown("a test")
	for requested := maxStopBatch; requested < programs; requested += maxStopBatch {
		if inspect(s).inState(fsm.Stopping) != requested || inspect(s).inState(fsm.Stopped) > 0 {
			t.Fatalf("%d stop and %d have stopped, want %d and none", inspect(s).inState(fsm.Stopping), inspect(s).inState(fsm.Stopped), requested)
		}
		posted := false
		s.Scope.Post(func() { posted = true })
		v.Step()
		if !posted {
			t.Fatal("a posted function does not run in the next turn")
		}
	}
	for range programs {
		if ended {
			return
		}
		v.RunFor(1)
	}
	t.Errorf("superd has not ended: %d have stopped", inspect(s).inState(fsm.Stopped))
}
