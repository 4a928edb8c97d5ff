package instance

import (
	"time"

	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A beside is what a run does beside its main process: post_start hooks, a reload, stop_command.
type beside struct {
	run       *run
	reload    *reload  // requested by the operator; nil without one
	checks    []*check // before restarts
	postStart *command // current post_start hook; nil without one
	hook      int      // its number, counted from 1; 0 without one

	stopCommand *command // nil unless it runs
	// What stop_command does; empty without one, and once the stop signal is sent
	stopState snapshot.StopCommand

	commands  int           // commands of the run that have begun and are not over
	commandAt time.Duration // end of the last one; 0 before
}

// shortagePause is the pause before a hook is started again after a resource shortage.
const shortagePause = 5 * time.Second

// beginPostStart runs the post_start hooks from that index on. When all have succeeded, the run is
// ready.
func (b *beside) beginPostStart(at int) {
	r := b.run
	in := r.in
	hooks := r.program.PostStart
	if at >= len(hooks) {
		b.postStart, b.hook = nil, 0
		r.becameReady()
		return
	}
	b.hook = at + 1
	b.postStart = newCommand(r, "post_start", hooks[at], "start_timeout", r.program.StartTimeout)
	b.postStart.user = r.program.HooksUser
	b.postStart.done = func(err error, _ []string) {
		switch {
		case err == nil:
			b.beginPostStart(at + 1)
			return
		case host.FaultIn(err) == host.FaultResource: // the machine's fault: nothing counts
			b.retryPostStart(at, err)
			return
		}
		in.Env.Log.Warn("hook failed", "instance", in.Name, "error", err)
		in.Apply(in.Machine.FailRun(fsm.StartTimeout, fsm.ReasonHookFailed.With(err.Error())))
	}
	b.postStart.start(false)
	in.Env.Owner.Changed()
}

// retryPostStart runs the post_start hooks again from that index on, after a resource shortage.
func (b *beside) retryPostStart(at int, shortage error) {
	in, failed := b.run.in, b.postStart
	in.Env.Log.Warn("hook not started, trying again", "instance", in.Name, "error", shortage)
	in.Env.Owner.Changed()
	b.run.main.scope.After(shortagePause, func() {
		if b.postStart == failed { // the run still starts
			b.beginPostStart(at)
		}
	})
}

// leave ends what does not belong to the state. b may be nil.
func (b *beside) leave(to fsm.State) {
	if b == nil {
		return
	}
	if b.postStart != nil && to != fsm.Starting {
		b.postStart.drop()
		b.postStart, b.hook = nil, 0
	}
	if to != fsm.Running && to != fsm.StopPending {
		b.dropChecks()
		b.reload.abort()
	}
}

// mainEnded ends a stop_command that has not begun: nothing is left to stop. b may be nil.
func (b *beside) mainEnded() {
	if b != nil && b.stopCommand != nil && !b.stopCommand.begun {
		b.run.stop.dropCommand()
	}
}

// current returns the reload under way; nil without one. b may be nil.
func (b *beside) current() *reload {
	if b == nil {
		return nil
	}
	return b.reload
}

// delays reports whether a check that began at that time may have waited for a command. b may be
// nil.
func (b *beside) delays(at time.Duration) bool {
	return b != nil && (b.commands > 0 || b.commandAt != 0 && at <= b.commandAt)
}

// stage returns what is done; "" for nothing. b may be nil.
func (b *beside) stage() string {
	switch {
	case b == nil:
	case b.postStart != nil:
		return b.postStart.stage()
	case b.reload != nil:
		return b.reload.does()
	}
	return ""
}

// snapshot returns the snapshot of what is done; nil for nothing. b may be nil.
func (b *beside) snapshot() *snapshot.Beside {
	if b == nil || b.hook == 0 && b.reload == nil && b.stopState == "" {
		return nil
	}
	return &snapshot.Beside{Reload: b.reload.snapshot(), StopCommand: b.stopState, PostStart: b.hook}
}
