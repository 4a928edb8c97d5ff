package instance

import (
	"fmt"
	"slices"
	"time"

	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/snapshot"
)

// An instance flaps from flapRestarts automatic restarts within flapWindow on, until it has been
// ready for as long without one, or is down. So a program that restarts now and then does not.
const (
	flapRestarts = 5
	flapWindow   = 5 * time.Minute
)

// flaps are the last automatic restarts of an instance. It is allocated with the first one, and has
// a timer only while the instance flaps and is ready.
type flaps struct {
	restarts []time.Duration // at most flapRestarts, the oldest first; the clock of the loop
	since    time.Duration   // when it began to flap; 0: it does not
	steady   *loop.Timer     // ends the flapping; nil: it is not ready
}

// updateFlapping counts an automatic restart, and begins or ends the flapping. It is called when
// the transition is on record.
func updateFlapping(in *Instance, from, to fsm.State) {
	now := in.Env.Loop.Now()
	if to == fsm.Backoff && from != fsm.Backoff {
		f := in.ownProblems().Flaps
		if f == nil {
			f = &flaps{}
			in.Flaps = f
		}
		f.restarts = append(f.restarts[max(0, len(f.restarts)+1-flapRestarts):], now)
		if f.since == 0 && len(f.restarts) == flapRestarts && now-f.restarts[0] <= flapWindow {
			f.since = now
			recordFlapping(in, eventlog.Begun, fsm.ReasonFlapping.With(fmt.Sprintf("%d automatic restarts within %s",
				flapRestarts, words.Duration(words.Round(now-f.restarts[0])))))
		}
	}
	f := in.Flaps
	if f == nil {
		return
	}
	if to != fsm.Running && f.steady != nil {
		f.steady.Stop()
		f.steady = nil
	}
	switch {
	case to == fsm.Running && f.since != 0 && f.steady == nil:
		armSteady(in, flapWindow)
	case to == fsm.Stopped || to == fsm.Exited || to == fsm.Failed:
		endFlapping(in, fsm.ReasonFlappingOver.With("it is "+to.String()))
	}
}

// armSteady ends the flapping after a time in which the instance stays ready.
func armSteady(in *Instance, after time.Duration) {
	in.Flaps.steady = in.Scope.After(max(after, 0), func() {
		in.Flaps.steady = nil
		endFlapping(in, fsm.ReasonFlappingOver.With("ready for "+words.Duration(flapWindow)+" without a restart"))
		in.Save()
		in.Env.Owner.Changed()
	})
}

// endFlapping forgets the restarts, and records the end of the flapping.
func endFlapping(in *Instance, why fsm.Reason) {
	flapped := in.Flaps.since != 0
	in.Flaps = nil
	if flapped {
		recordFlapping(in, eventlog.Over, why)
	}
}

func recordFlapping(in *Instance, state string, why fsm.Reason) {
	in.Env.Log.Warn("program flapping", "instance", in.Name, "state", state, "reason", why.String())
	in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Flapping, State: state}, why))
}

// FlappingSince returns when the instance began to flap, on the loop's clock; 0: it does not.
func (in *Instance) FlappingSince() time.Duration {
	if in.Flaps == nil {
		return 0
	}
	return in.Flaps.since
}

// snapshot returns the snapshot of the restarts. f may be nil.
func (f *flaps) snapshot() *snapshot.Flapping {
	if f == nil {
		return nil
	}
	return &snapshot.Flapping{Restarts: slices.Clone(f.restarts), Since: f.since}
}

// restoreFlapping restores the restarts of an instance whose machine is restored.
func restoreFlapping(in *Instance, v *snapshot.Flapping) {
	if v == nil {
		return
	}
	in.ownProblems().Flaps = &flaps{restarts: slices.Clone(v.Restarts), since: v.Since}
	if v.Since != 0 && in.Machine.State() == fsm.Running {
		armSteady(in, in.since+flapWindow-in.Env.Loop.Now())
	}
}
