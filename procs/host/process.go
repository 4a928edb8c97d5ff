package host

import (
	"syscall"
	"time"

	"superd/pidfd"
)

// A Process is a main process. [pidfd.Process] implements it.
type Process interface {
	Pid() int
	FD() int     // readable when the process has ended
	Ended() bool // whether it has ended, reaped or not
	Signal(sig syscall.Signal) error
	SignalGroup(sig syscall.Signal) error
	Wait() (pidfd.Exit, bool, error) // for a child; otherwise the error is [pidfd.ErrNotChild]
	// of a process reaped by another; not supported by all kernels
	ExitInfo() (pidfd.Exit, bool, error)
	Close() error
}

// A ProcessKey distinguishes a process from a later one with its pid.
type ProcessKey struct {
	Pid   int
	Start uint64
}

// KillPause is how long a process may take to end after SIGKILL before it is reported as
// unkillable.
const KillPause = 2 * time.Second

// UnwatchedPause is the interval at which superd checks a process that it cannot watch, in a
// resource shortage.
const UnwatchedPause = time.Second
