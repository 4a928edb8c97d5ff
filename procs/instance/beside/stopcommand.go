package beside

import (
	"time"

	"superd/procs/snapshot"
)

// StopCommand runs stop_command, which has no time-out of its own. done is called once at its end,
// unless it is dropped.
func (b *Commands) StopCommand(done func(error)) {
	b.stopState = snapshot.StopCommandRuns
	b.stopCommand = b.newCommand("stop_command", b.Run.Program().StopCommand, "", 0)
	b.stopCommand.done = func(err error, _ []string) {
		b.stopCommand, b.stopState = nil, snapshot.StopCommandEnded
		if err != nil {
			b.Log.Warn("stop_command failed", "instance", b.Instance, "error", err)
		}
		done(err)
	}
	b.stopCommand.start(false)
}

// BoundStopCommand drops stop_command at the deadline. b may be nil.
func (b *Commands) BoundStopCommand(deadline time.Duration) {
	if b == nil || b.stopCommand == nil {
		return
	}
	c := b.stopCommand
	c.timer = c.scope.After(max(deadline-b.now(), 0), func() {
		b.LogStopCommandLate()
		b.DropStopCommand()
	})
}

// LogStopCommandLate logs that stop_command has outlived the stop time-out, if it has.
func (b *Commands) LogStopCommandLate() {
	if b.StopState() == snapshot.StopCommandRuns {
		b.Log.Warn("stop_command has not ended in time", "instance", b.Instance,
			"stop_timeout", b.Run.Program().StopTimeout)
	}
}

// DropStopCommand ends stop_command and what waits for it. b may be nil.
func (b *Commands) DropStopCommand() {
	if b == nil {
		return
	}
	if b.stopCommand != nil {
		b.stopCommand.drop()
	}
	b.stopCommand, b.stopState = nil, ""
}

// MainEnded ends a stop_command that has not begun: nothing is left to stop. b may be nil.
func (b *Commands) MainEnded() {
	if b != nil && b.stopCommand != nil && !b.stopCommand.begun {
		b.DropStopCommand()
	}
}

// StopState returns what stop_command does; empty without one, and once the stop signal is sent. b
// may be nil.
func (b *Commands) StopState() snapshot.StopCommand {
	if b == nil {
		return ""
	}
	return b.stopState
}

// StopStage returns what stop_command, which runs, does.
func (b *Commands) StopStage() string { return b.stopCommand.stage() }
