package procs

import (
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
)

// TestWallClockStepsChangeNothing steps the wall clock by a year, forward and backward, around a
// crash. Neither the restart nor the shown times change.
func TestWallClockStepsChangeNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, step := range []time.Duration{year, -year} {
		h := newHistory(1, defect{}, false)
		h.kernel.Mix = hosttest.FaultMix{}
		h.models["web"] = &model{wantUp: true}
		p := testProgram()
		p.Name = "web"
		inspect(h.sup).activate(&config.Config{Programs: []*config.Program{p}})
		h.v.RunFor(time.Minute)
		in := inspect(h.sup).instance("web")
		first := in.Run().Process().(*hosttest.Handle).Process

		h.v.StepWall(step)
		wall := h.v.Wall()
		if st := in.status(); st.State != fsm.Running || st.Main.Uptime < 59*time.Second || st.Main.Uptime > time.Minute || wall.Sub(st.Since) > time.Minute {
			t.Errorf("after a step of %v: %v, up %v, since %v ago; want running, up a minute", step, st.State, st.Main.Uptime, wall.Sub(st.Since))
		}
		first.End(pidfd.Exit{Known: true, Code: 1})
		h.v.RunFor(50 * time.Millisecond)
		h.v.StepWall(-step)
		if st := in.status(); st.State != fsm.Backoff || *st.NextStart > 51*time.Millisecond {
			t.Errorf("50ms after the crash: %v, next start in %v; want backoff, 50ms", st.State, st.NextStart)
		}
		h.v.RunFor(49 * time.Millisecond)
		if in.state() != fsm.Backoff {
			t.Errorf("99ms after the crash: %v; want backoff: the delay is 100ms", in.state())
		}
		h.v.RunFor(10 * time.Millisecond)
		if in.state() != fsm.Running {
			t.Errorf("109ms after the crash: %v; want running again", in.state())
		}
	}
}

// TestSlowTurnChangesNoTimes delays the rest of a turn: a state change has the time at which its
// turn began.
func TestSlowTurnChangesNoTimes(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", nil)}})
	h.v.RunFor(time.Minute)
	want := h.v.WallAt(inspect(h.sup).instance("web").stateSince())
	asked := false
	h.v.Post(func() {
		asked = true
		h.v.Advance(500 * time.Millisecond)
		st, err := h.sup.Status([]string{"web"})
		if err != nil || !st[0].Since.Equal(want) {
			t.Errorf("in a delayed turn: since %v, %v, want %v", st[0].Since, err, want)
		}
	})
	h.v.RunFor(time.Second)
	if !asked {
		t.Error("the turn did not happen")
	}
}
