// Package beside runs what a run does beside its main process: post_start hooks, checks of the
// configuration, a reload, and stop_command.
//
// Each is a command that runs through the [execprobe.Runner] of the instance, or a signal. The run
// knows what they do by [Commands]; they know the run as a [Run]. All live on the loop.
package beside

import (
	"log/slog"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// Options say where commands run.
type Options struct {
	Instance   string
	Run        Run
	Supervisor *loop.Scope // outlives the instance
	Scope      *loop.Scope // ends with the instance
	Main       *loop.Scope // ends with the main process
	Host       host.Host
	Reaper     execprobe.Reaper
	Log        *slog.Logger
	// Calls f when the present state is recorded, or with the error
	AfterSaving func(f func(unrecorded error))
}

// A Run is what commands need of their run.
type Run interface {
	// Program returns its definition.
	Program() *config.Program
	// Main returns the main process; nil without one.
	Main() host.Process
	// Machine returns the machine of the instance.
	Machine() *fsm.Machine
	// Checks returns what runs the instance's exec checks, and creates it on first use.
	Checks() *execprobe.Runner
	// Spec returns the specification of a process of the run that executes a command. output opens
	// what it writes to; nil: the log of the program.
	Spec(command []string, output func(uid uint32) (int, error)) *host.SpawnSpec
	// WhenNotifyDrained calls f when all notifications sent by now are read.
	WhenNotifyDrained(f func())
	// ResumeReloading resumes a reload that the program has reported, if its time was just over.
	ResumeReloading()

	// Save queues the instance's record.
	Save()
	// Changed is called when something that a status shows has changed.
	Changed()
	// Record puts an event of the instance into the event log.
	Record(e eventlog.Event)
	// MarkUnkillable reports what the end of the run waits for.
	MarkUnkillable(why string)
	// Reloaded is called at the end of a reload.
	Reloaded(end *snapshot.ReloadEnd)

	// PostStarted is called when all post_start hooks have succeeded, or there are none.
	PostStarted()
	// Fail fails the run.
	Fail(e fsm.Event, reason fsm.Reason)
	// Reload requests another reload of the instance, whose run may be another one by now.
	Reload(done ...func(Outcome))
}

// Commands are what a run does beside its main process.
type Commands struct {
	Options
	reload    *reload  // requested by the operator; nil without one
	checks    []*check // before restarts
	postStart *command // current post_start hook; nil without one
	hook      int      // its number, counted from 1; 0 without one

	stopCommand *command // nil unless it runs
	// What stop_command does; empty without one, and once the stop signal is sent
	stopState snapshot.StopCommand

	executions []*Execution // commands of operators that have not ended
	executed   func()       // called when the last of them ends; may be nil

	running int           // commands that have begun and are not over
	endedAt time.Duration // end of the last one; 0 before
}

// New returns the commands of a run, none of which runs.
func New(o Options) *Commands { return &Commands{Options: o} }

// now returns the time on the loop's clock.
func (b *Commands) now() time.Duration { return b.Scope.Loop().Now() }

// shortagePause is the pause before a hook is started again after a resource shortage.
const shortagePause = 5 * time.Second

// PostStart runs the post_start hooks from that index on.
func (b *Commands) PostStart(at int) {
	hooks := b.Run.Program().PostStart
	if at >= len(hooks) {
		b.postStart, b.hook = nil, 0
		b.Run.PostStarted()
		return
	}
	b.hook = at + 1
	b.postStart = b.newCommand("post_start", hooks[at], "start_timeout", b.Run.Program().StartTimeout)
	b.postStart.done = func(err error, _ []string) {
		switch {
		case err == nil:
			b.PostStart(at + 1)
			return
		case host.FaultIn(err) == host.FaultResource: // the machine's fault: nothing counts
			b.retryPostStart(at, err)
			return
		}
		b.Log.Warn("hook failed", "instance", b.Instance, "error", err)
		b.Run.Fail(fsm.StartTimeout, fsm.ReasonHookFailed.With(err.Error()))
	}
	b.postStart.start(false)
	b.Run.Changed()
}

// retryPostStart runs the post_start hooks again from that index on, after a resource shortage.
func (b *Commands) retryPostStart(at int, shortage error) {
	failed := b.postStart
	b.Log.Warn("hook not started, trying again", "instance", b.Instance, "error", shortage)
	b.Run.Changed()
	b.Main.After(shortagePause, func() {
		if b.postStart == failed { // the run still starts
			b.PostStart(at)
		}
	})
}

// InPostStart reports whether a post_start hook is under way. b may be nil.
func (b *Commands) InPostStart() bool { return b != nil && b.hook > 0 }

// Leave ends what does not belong to the state. b may be nil.
func (b *Commands) Leave(to fsm.State) {
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
	if !to.Serves() {
		b.endExecutions()
	}
}

// Shift moves the time-outs of commands by the differences that a new definition makes. b may be
// nil.
func (b *Commands) Shift(start, stop time.Duration) {
	if b == nil {
		return
	}
	b.postStart.shift(start)
	for _, k := range b.checks {
		k.command.shift(start)
	}
	if l := b.reload; l != nil {
		l.command.shift(start)
		shift(l.due, start, b.now())
	}
	b.stopCommand.shift(stop)
}

// Delay reports whether a check that began at that time may have waited for a command. b may be
// nil.
func (b *Commands) Delay(at time.Duration) bool {
	return b != nil && (b.running > 0 || b.endedAt != 0 && at <= b.endedAt)
}

// LastAt returns when a command was last under way, and when the last one ended; 0: never. b may be
// nil.
func (b *Commands) LastAt() (underWay, ended time.Duration) {
	switch {
	case b == nil:
		return 0, 0
	case b.running > 0:
		return b.now(), b.endedAt
	}
	return b.endedAt, b.endedAt
}

// Stage returns what is done; "" for nothing, and for stop_command. b may be nil.
func (b *Commands) Stage() string {
	switch {
	case b == nil:
	case b.postStart != nil:
		return b.postStart.stage()
	case b.reload != nil:
		return b.reload.does()
	}
	return ""
}

// Snapshot returns the snapshot of what is done; nil for nothing. b may be nil.
func (b *Commands) Snapshot() *snapshot.Beside {
	if b == nil || b.hook == 0 && b.reload == nil && b.stopState == "" {
		return nil
	}
	return &snapshot.Beside{Reload: b.reload.snapshot(), StopCommand: b.stopState, PostStart: b.hook}
}

// Restore sets what stop_command did. [Commands.PostStart], [Commands.ResumeReload] and
// [Commands.StopCommand] resume what was under way.
func (b *Commands) Restore(v *snapshot.Beside) { b.stopState = v.StopCommand }
