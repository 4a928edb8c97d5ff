package reconcile

import (
	"fmt"

	"superd/procs/fsm"
	"superd/procs/instance"
)

// An Op is an operator's command.
type Op uint8

// The operator's commands.
const (
	Start Op = iota
	Stop
	Restart
)

// A Result is the result of a command for one instance.
type Result struct {
	Name    string
	OK      bool
	State   fsm.State
	Message string // what happened, as text
	// Last lines of the command that failed, such as a check of the configuration
	Output []string

	// Why the command is not in the journal: a crash of superd would undo it; nil: it is. OK is
	// then false, although the command was carried out.
	Unrecorded error
}

// String returns the command's name: start, stop or restart.
func (op Op) String() string { return [...]string{"start", "stop", "restart"}[op] }

// Reason returns why an instance has its state after the command.
func (op Op) Reason() fsm.Reason {
	return fsm.Reason{Kind: [...]fsm.ReasonKind{fsm.ReasonRequestedStart, fsm.ReasonRequestedStop, fsm.ReasonRequestedRestart}[op]}
}

// MarkUnrecorded marks a successful result as not in the journal. A failed one keeps its message.
func (o *Result) MarkUnrecorded(cause error) {
	if o.OK {
		o.OK, o.Unrecorded = false, cause
		o.Message += ", " + unrecordedText(cause)
	}
}

// unrecordedText returns the consequence of a command that is not in the journal.
func unrecordedText(cause error) string {
	return fmt.Sprintf("but not recorded, so a crash of superd undoes it: %v", cause)
}

// NoopMessage returns the result of a command that has nothing to wait for; empty otherwise.
func (op Op) NoopMessage(in *instance.Instance) string {
	switch {
	case in.Membership.Leaves(), in.Quarantined():
	case op == Start && in.Machine.State() == fsm.Running && !in.IsOneShot():
		return fmt.Sprintf("already running, pid %d", in.Pid())
	case op == Stop && in.Machine.State().AtRest():
		return "already " + in.Machine.State().String()
	}
	return ""
}

// Perform carries out op without waiting. Every command is legal in every state.
func (q *Queue) Perform(in *instance.Instance, op Op) {
	if op == Stop {
		in.Marks.Stops++
	}
	if in.Membership.Leaves() {
		// The command applies to the replacement
		in.Membership.Target = &fsm.Target{Up: op != Stop, By: fsm.By(fsm.ActorOperator)}
		in.Save()
		return
	}
	if in.Quarantined() {
		in.Quarantine.Kill()
		return
	}
	switch op {
	case Start:
		in.Apply(in.Machine.WantUp(fsm.By(fsm.ActorOperator), true, in.Conditions()))
		q.StartWithRequirements(in)
	case Stop:
		in.Apply(in.Machine.WantDown(fsm.By(fsm.ActorOperator), in.Conditions()))
	case Restart:
		in.Apply(in.Machine.WantRestart(fsm.By(fsm.ActorOperator), true, in.Conditions()))
		q.StartWithRequirements(in)
	}
}
