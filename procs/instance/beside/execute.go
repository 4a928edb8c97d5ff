package beside

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// ExecuteOptions say what an operator executes beside the main process.
type ExecuteOptions struct {
	Command []string // not expanded
	// Each opens a descriptor for a process of that user, off the loop; the process gets it
	Stdin, Stdout, Stderr func(uid uint32) (fd int, err error)
	Terminal              bool   // Stdin is a terminal, which becomes its controlling one
	TERM                  string // kind of the terminal; empty: none

	// Both are called on the loop, not before Execute has returned; Ended last, and once. err says
	// why the command was not executed.
	Started func(pid int)
	Ended   func(exit pidfd.Exit, err error)
}

// An Execution is a command that an operator executes beside the main process. It runs as the
// program does, in the program's process tree, and ends when the main process stops. Processes that
// it leaves end with the program. No successor knows it: its client is gone then.
type Execution struct {
	ExecuteOptions
	of      *Commands
	pending host.PendingSpawn
	process host.Process
	scope   *loop.Scope
	ending  bool
}

// Execute executes a command of an operator.
func (b *Commands) Execute(o ExecuteOptions) *Execution {
	e := &Execution{ExecuteOptions: o, of: b}
	b.executions = append(b.executions, e)
	e.pending = b.Host.Spawn(e.spec(), e.spawned)
	return e
}

// spec returns the specification of the process.
func (e *Execution) spec() *host.SpawnSpec {
	words := make([]string, len(e.Command))
	for i, word := range e.Command {
		words[i] = strings.ReplaceAll(word, "$", "$$") // its variables are not the program's
	}
	r := e.of.Run
	spec := r.Spec(words, e.Stdout)
	spec.Input = &host.Outlet{ReadFD: -1, Direct: e.Stdin}
	spec.Outputs = []host.Outlet{{ReadFD: -1, Direct: e.Stdout}, {ReadFD: -1, Direct: e.Stderr}}
	spec.Terminal = e.Terminal
	if e.TERM != "" {
		spec.Own.Set("TERM", e.TERM)
	}
	if p := r.Main(); p != nil {
		spec.Own.Set("MAINPID", strconv.Itoa(p.Pid()))
	}
	return spec
}

// spawned handles the result of the spawn.
func (e *Execution) spawned(child host.Child, err error) {
	e.pending = nil
	if err != nil {
		e.over(pidfd.Exit{}, err)
		return
	}
	e.process, e.scope = child.Process, e.of.Supervisor.Child()
	e.of.Reaper.WatchChild(e.scope, e.process, "", e.reap)
	if e.ending {
		e.kill()
		return
	}
	e.Started(e.process.Pid())
}

// reap handles the end of the process.
func (e *Execution) reap() {
	if e.process == nil {
		return
	}
	exit, ended := e.of.Reaper.WaitStatus(e.process)
	if !ended {
		return
	}
	e.scope.Close()
	e.process = nil
	e.over(exit, nil)
}

func (e *Execution) over(exit pidfd.Exit, err error) {
	b := e.of
	b.executions = slices.DeleteFunc(b.executions, func(other *Execution) bool { return other == e })
	e.Ended(exit, err)
	if executed := b.executed; executed != nil && len(b.executions) == 0 {
		b.executed = nil
		executed()
	}
}

// errEnded is the result of a command that was to end before it was executed.
var errEnded = errors.New("the program stops")

// End ends the command with its process group.
func (e *Execution) End() {
	if e.ending {
		return
	}
	e.ending = true
	switch {
	case e.process != nil:
		e.kill()
	case e.pending != nil:
		e.cancel()
	}
}

// cancel cancels the spawn if possible, and reports whether it did.
func (e *Execution) cancel() bool {
	if !e.pending.Cancel(func() {}) {
		return false
	}
	e.pending = nil
	e.of.Supervisor.Post(func() { e.over(pidfd.Exit{}, errEnded) })
	return true
}

func (e *Execution) kill() {
	if err := e.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		e.of.Log.Error("command of an operator not killed", "instance", e.of.Instance,
			"pid", e.process.Pid(), "error", err)
	}
}

// Executing reports whether a command of an operator has not ended. b may be nil.
func (b *Commands) Executing() bool { return b != nil && len(b.executions) > 0 }

// WhenExecuted calls f when all commands of operators have ended, which are ending. It reports
// whether there is one; otherwise f is not called. b may be nil.
func (b *Commands) WhenExecuted(f func()) bool {
	if !b.Executing() {
		return false
	}
	b.executed = f
	b.Scope.After(host.KillPause, b.reportUnkillable)
	return true
}

// reportUnkillable reports a command that the end of the run waits for. One whose spawn could not
// be cancelled may be cancelled by now.
func (b *Commands) reportUnkillable() {
	if b.executed == nil {
		return
	}
	why := ""
	for _, e := range b.executions {
		switch {
		case e.pending != nil && !e.cancel():
			why = host.DescribeHung(b.Host, e.pending)
		case e.process != nil:
			why = fmt.Sprintf("process %d survives SIGKILL", e.process.Pid())
		}
	}
	if why != "" {
		b.Run.MarkUnkillable("command of an operator: " + why)
	}
}

// endExecutions ends all commands of operators.
func (b *Commands) endExecutions() {
	for _, e := range slices.Clone(b.executions) {
		e.End()
	}
}
