package procs

import "superd/procs/reconcile"

// An Op is an operator's command.
type Op = reconcile.Op

// The operator's commands.
const (
	OpStart   = reconcile.Start
	OpStop    = reconcile.Stop
	OpRestart = reconcile.Restart
)

// A CommandResult is the result of a command for one instance.
type CommandResult = reconcile.Result
