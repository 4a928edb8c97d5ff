package instance

import "superd/procs/fsm"

// Reason returns why the state is what it is.
func (in *Instance) Reason() string {
	_, text := shownReasonIn(in, in.run.stage())
	return text
}

// shownReasonIn returns the reason of the state, with the stage in the text: what happens now.
func shownReasonIn(in *Instance, stage string) (kind fsm.ReasonKind, text string) {
	if in.unkillable != "" {
		return fsm.ReasonUnkillable, in.unkillable
	}
	r, more := in.Machine.StateReason(), ""
	switch {
	case in.AwaitsTrigger() && in.Schedule != nil:
		r, more = waitReason(in), "; "+in.Schedule.nextText()
	case in.AwaitsTrigger():
		r = waitReason(in)
	case in.Machine.State() == fsm.Waiting:
		r = in.Node.BlockedReason()
	case stage != "":
		more = ": " + stage
	}
	return r.Kind, r.String() + more
}

// stage returns what happens at the moment, if that is more than the state says; else "". r may be
// nil.
func (r *run) stage() string {
	if r == nil {
		return ""
	}
	switch in := r.in; {
	case in.Machine.State() == fsm.StopPending:
		return "waits until " + in.Node.remainingDependents() + " down"
	case r.teardown != nil:
		return r.teardown.Stage()
	case r.hook != nil:
		return r.hook.stage()
	case r.spawn.delayedBegin != nil:
		return "waits for an earlier start, which hangs in " + in.hangsIn
	case r.spawn.pending != nil:
		return r.spawn.pending.Stage()
	case r.stop.stage() != "":
		return r.stop.stage()
	case r.beside.Stage() != "":
		return r.beside.Stage()
	case r.readiness != nil:
		return "not ready yet: " + r.readiness.Stage()
	case r.ownStopTimer != nil && in.Machine.State() == fsm.Running:
		return "it is about to exit (STOPPING=1)"
	case r.reloadTimer != nil && in.Machine.State() == fsm.Running:
		return "it reloads its configuration (RELOADING=1)"
	case r.monitor != nil && r.monitor.Healthy() != nil && !*r.monitor.Healthy():
		return r.monitor.UnhealthyReason()
	}
	return ""
}

// waitReason returns the reason of the state waiting, without the time of the next run.
func waitReason(in *Instance) fsm.Reason {
	switch {
	case !in.AwaitsTrigger():
		return in.Node.BlockedReason()
	case in.Program.Accepts():
		return waitForConnection(in)
	case in.Machine.ExitReason().Kind != fsm.ReasonNone:
		return fsm.ReasonWaitsForSchedule.With(in.Machine.ExitReason().String())
	}
	return fsm.ReasonWaitsForSchedule.With("waits for its schedule")
}
