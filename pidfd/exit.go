package pidfd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An Exit says how a process ended. The zero Exit is an unknown one.
type Exit struct {
	Known  bool           // false: how it ended is unknown; the other fields are zero
	Code   int            // exit status, 0 to 255; valid when Signal is 0
	Signal syscall.Signal // signal that killed it, 0 if it exited by itself
	Core   bool           // it dumped core
	// Of the process and the children it waited for, as in the next two fields
	UserTime    time.Duration
	SystemTime  time.Duration
	MaxRSSBytes int64 // of the largest of them, not the sum
}

// Success reports whether the process is known to have exited with status 0.
func (e Exit) Success() bool { return e.Known && e.Signal == 0 && e.Code == 0 }

// String returns "exit status 3", "killed by SIGKILL", "killed by SIGSEGV (core dumped)" or "exit
// status unknown". A signal without a name, such as a real-time signal, is "signal 40".
func (e Exit) String() string {
	switch {
	case !e.Known:
		return "exit status unknown"
	case e.Signal == 0:
		return fmt.Sprintf("exit status %d", e.Code)
	}
	name := unix.SignalName(e.Signal)
	if name == "" {
		name = fmt.Sprintf("signal %d", int(e.Signal))
	}
	if e.Core {
		return "killed by " + name + " (core dumped)"
	}
	return "killed by " + name
}

// ExitOf converts a wait status of wait4(2) to an Exit without resource usage.
func ExitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Known: true, Signal: status.Signal(), Core: status.CoreDump()}
	}
	return Exit{Known: true, Code: status.ExitStatus()}
}

// How a child ended, in si_code. Source: sigaction(2), include/uapi/asm-generic/siginfo.h.
const (
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// exitOfChild converts the result of waitid(2) to an Exit: code is si_code, one of the three above;
// status is si_status, an exit status or a signal number.
func exitOfChild(code, status int32) Exit {
	if code == cldExited {
		return Exit{Known: true, Code: int(status)}
	}
	return Exit{Known: true, Signal: syscall.Signal(status), Core: code == cldDumped}
}

// Errors for callers to test. Each wraps its errno or an error of package errors.
var (
	// ErrGone reports that the process, or every member of its group, has ended and was reaped.
	ErrGone error = &sentinel{"process is gone", syscall.ESRCH}
	// ErrNotChild reports that the process is not (or no longer) an unreaped child of this process.
	ErrNotChild error = &sentinel{"not a child of this process", syscall.ECHILD}
	// ErrUnsupported reports that the running kernel lacks the requested feature.
	ErrUnsupported error = &sentinel{"not supported by this kernel", errors.ErrUnsupported}
)

type sentinel struct {
	text  string
	cause error
}

func (s *sentinel) Error() string { return s.text }
func (s *sentinel) Unwrap() error { return s.cause }
