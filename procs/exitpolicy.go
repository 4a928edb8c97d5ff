package procs

import (
	"fmt"
	"slices"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/reconcile"
	"superd/procs/snapshot"
)

// An exitPolicy decides when superd ends by itself, and its exit status. It begins the shutdown.
type exitPolicy struct {
	*platform
	shutdown   *shutdown
	registry   *registry
	reconciler *reconcile.Queue
	config     *configState
	saveSelf   func() // queues the record of superd
	// A connection may start the instance
	awaits func(*instance.Instance) bool
	// Reports whether it is an extra replica of a roll: that does not count
	isExtra    func(*instance.Instance) bool
	anyStarted bool // a program was started, by this superd or a predecessor
	decided    bool // an instance has decided the end of superd and the exit status
	posted     bool // a check whether all instances have ended is posted
	status     int  // superd's exit status
}

// snapshot sets in the record of superd whether something was started, and the exit status in that
// of the shutdown.
func (x *exitPolicy) snapshot(v *snapshot.Superd) {
	v.Begun = x.anyStarted
	if v.Shutdown != nil {
		v.Shutdown.Status = x.status
	}
}

// restore is the inverse of snapshot.
func (x *exitPolicy) restore(v *snapshot.Superd) {
	x.anyStarted = v.Begun
	if v.Shutdown != nil {
		x.status, x.decided = v.Shutdown.Status, v.Shutdown.Status != 0
	}
}

// begin records that something is started.
func (x *exitPolicy) begin() {
	if !x.anyStarted {
		x.anyStarted = true
		x.saveSelf()
	}
}

// check ends superd if the configuration says so for this instance, which stays down by itself: it
// has exited, or failed without a retry.
func (x *exitPolicy) check(in *instance.Instance) {
	switch when := x.config.active.Superd.ExitWhen; {
	case x.shutdown.begun || x.decided || x.isExtra(in) || x.awaits(in):
	case in.Program.Essential:
		x.endWith(in, fsm.ReasonEssentialEnded.With(
			fmt.Sprintf("%s is essential and stays down: %s", in.Name, in.Machine.StateReason())))
	case when == config.ExitAnyFailed && in.Machine.State() == fsm.Failed:
		x.endWith(in, fsm.ReasonAnyFailed.With(
			fmt.Sprintf("exit_when = %q and %s failed: %s", when, in.Name, in.Machine.StateReason())))
	}
}

// endIfAnyFailed ends superd if a new configuration says so for an instance that has already
// failed.
func (x *exitPolicy) endIfAnyFailed() {
	if x.config.active.Superd.ExitWhen != config.ExitAnyFailed || x.shutdown.begun || x.decided {
		return
	}
	if first := x.firstFailed(); first != nil {
		x.check(first)
	}
}

// endWith begins a shutdown with the exit status of the instance, after the turn's other work. The
// first call decides.
func (x *exitPolicy) endWith(in *instance.Instance, why fsm.Reason) {
	x.decided = true
	x.status = exitStatus(in)
	x.Scope.Post(func() {
		if !x.shutdown.begun {
			x.shutdown.begin(why, 0)
		}
	})
}

// endIfAllEnded ends superd if the configuration says so and all instances have ended. It checks
// that after the turn's other work, which may start an instance.
func (x *exitPolicy) endIfAllEnded() {
	if x.config.active.Superd.ExitWhen != config.ExitAllExited || x.posted || !x.allEnded() {
		return
	}
	x.posted = true
	x.Scope.Post(func() {
		x.posted = false
		// Another configuration may be active by now
		asked := x.config.active.Superd.ExitWhen == config.ExitAllExited
		if asked && !x.shutdown.begun && !x.decided && x.allEnded() {
			x.status = x.firstFailureStatus()
			x.shutdown.begin(fsm.ReasonAllEnded.With(
				fmt.Sprintf("exit_when = %q and all programs have ended", config.ExitAllExited)), 0)
		}
	})
}

// firstFailureStatus returns the exit status of the instance that failed first, among those that
// stay failed; 0 if there is none.
func (x *exitPolicy) firstFailureStatus() int {
	if first := x.firstFailed(); first != nil {
		return exitStatus(first)
	}
	return 0
}

// firstFailed returns the instance that failed first, among those that stay failed; nil if there is
// none.
func (x *exitPolicy) firstFailed() (first *instance.Instance) {
	for _, in := range x.registry.instances {
		if in.Machine.State() == fsm.Failed && !in.Machine.Retries() && !x.isExtra(in) && (first == nil || in.Since() < first.Since()) {
			first = in
		}
	}
	return first
}

// allEnded reports whether every instance is down and none starts by itself. A waiting instance
// counts as ended if its blocker is down. Before the first start nothing has ended. A retiring
// instance counts as live, as it may block another one.
func (x *exitPolicy) allEnded() bool {
	if !x.anyStarted || x.registry.countAtRest()+x.registry.counts[fsm.Waiting] < len(x.registry.instances)-int(x.registry.loggers) || !x.reconciler.Idle() {
		return false
	}
	return !slices.ContainsFunc(x.registry.instances, func(in *instance.Instance) bool {
		if in.IsLogger() {
			return false // the shutdown ends it
		}
		return !in.Machine.State().AtRest() && in.Machine.State() != fsm.Waiting || in.RetryPending() || in.Membership.Leaves() || x.awaits(in) || in.Machine.State() == fsm.Waiting && in.Node.IsComing() || in.AwaitsTrigger()
	})
}

// exitStatus returns superd's exit status if this instance decides it: its exit code; 128 plus the
// number of the signal; 1 if it could not be started or its exit is unknown.
func exitStatus(in *instance.Instance) int {
	switch e := in.LastExit; {
	case in.Machine.NotStarted() || e == nil || !e.Known, in.Machine.State() == fsm.Failed && e.Signal == "" && e.Code == 0:
		return 1
	case e.Signal != "":
		return 128 + e.SignalNumber
	default:
		return e.Code
	}
}
