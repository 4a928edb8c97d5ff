package instance

import (
	"time"

	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance/flapping"
	"superd/procs/snapshot"
)

// flaps are the last automatic restarts of an instance, allocated with the first one.
type flaps struct {
	*flapping.Record
	steady *loop.Timer // ends the flapping; nil unless it flaps and is ready
}

// updateFlapping counts an automatic restart, and begins or ends the flapping. It is called when
// the transition is on record.
func updateFlapping(in *Instance, from, to fsm.State) {
	if to == fsm.Backoff && from != fsm.Backoff {
		if in.flaps.Record == nil {
			in.ownProblems().flaps.Record = &flapping.Record{}
		}
		if why := in.flaps.Add(in.Env.Loop.Now()); why != "" {
			recordFlapping(in, eventlog.Begun, fsm.ReasonFlapping.With(why))
		}
	}
	if in.flaps.Record == nil {
		return
	}
	f := &in.flaps
	switch to {
	case fsm.Running:
		if f.Since != 0 && f.steady == nil {
			armSteady(in, flapping.Window)
		}
		return
	case fsm.Stopped, fsm.Exited, fsm.Failed:
		endFlapping(in, "it is "+to.String())
	}
	f.steady.Stop()
	f.steady = nil
}

// armSteady ends the flapping after a time in which the instance stays ready.
func armSteady(in *Instance, after time.Duration) {
	in.flaps.steady = in.Scope.After(max(after, 0), func() {
		in.flaps.steady = nil
		endFlapping(in, "ready for "+words.Duration(flapping.Window)+" without a restart")
		in.Save()
		in.Env.Owner.Changed()
	})
}

// endFlapping forgets the restarts, and records the end of the flapping.
func endFlapping(in *Instance, why string) {
	flapped := in.flaps.Begun() != 0
	if in.flaps.Record = nil; flapped {
		recordFlapping(in, eventlog.Over, fsm.ReasonFlappingOver.With(why))
	}
}

func recordFlapping(in *Instance, state string, why fsm.Reason) {
	in.Env.Log.Warn("program flapping", "instance", in.Name, "state", state, "reason", why.String())
	in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Flapping, State: state}, why))
}

// FlappingSince returns when the instance began to flap, on the loop's clock; 0: it does not.
func (in *Instance) FlappingSince() time.Duration { return in.flaps.Begun() }

// restoreFlapping restores the restarts of an instance whose machine is restored.
func restoreFlapping(in *Instance, v *snapshot.Flapping) {
	if v == nil {
		return
	}
	in.ownProblems().flaps.Record = flapping.Restore(v)
	if v.Since != 0 && in.Machine.State() == fsm.Running {
		armSteady(in, in.since+flapping.Window-in.Env.Loop.Now())
	}
}
