package instance

import (
	"syscall"
	"time"

	"superd/internal/signame"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/snapshot"
)

// An ExitStatus is how a run ended.
type ExitStatus struct {
	Code         int    // exit code; meaningless after a signal, or if unknown
	Signal       string // "SIGKILL"; "" after an exit
	At           time.Time
	Known        bool
	SignalNumber int           // its number
	EndedAt      time.Duration // on the loop's clock
}

// exit returns the status as the machine has it; the zero value without one.
func (e *ExitStatus) exit() fsm.Exit {
	if e == nil {
		return fsm.Exit{}
	}
	return fsm.Exit{Known: e.Known, Code: e.Code, Signal: e.SignalNumber}
}

// exitOf returns the exit of a main process as the machine has it.
func exitOf(e pidfd.Exit) fsm.Exit {
	return fsm.Exit{Known: e.Known, Code: e.Code, Signal: int(e.Signal), Text: e.String()}
}

// snapshot returns the snapshot of the exit status; nil for nil.
func (e *ExitStatus) snapshot() *snapshot.Exit {
	if e == nil {
		return nil
	}
	return &snapshot.Exit{Known: e.Known, Code: e.Code, Signal: e.SignalNumber, At: e.EndedAt}
}

// restoreExit returns the exit status of a snapshot; nil for nil.
func restoreExit(v *snapshot.Exit) *ExitStatus {
	if v == nil {
		return nil
	}
	e := &ExitStatus{Known: v.Known, Code: v.Code, SignalNumber: v.Signal, EndedAt: v.At}
	if v.Signal != 0 {
		e.Signal = signame.Name(syscall.Signal(v.Signal))
	}
	return e
}
