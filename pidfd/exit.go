package pidfd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An Exit tells how a process ended. The zero value is the exit that nobody saw.
type Exit struct {
	Known       bool           // false: it ended, but how was lost; the other fields are zero
	Code        int            // exit status, 0 to 255; meaningful when Signal is 0
	Signal      syscall.Signal // the signal that killed it, 0 if it exited by itself
	Core        bool           // it was killed and dumped core
	UserTime    time.Duration  // its own and its waited-for children's, as are the next two
	SystemTime  time.Duration
	MaxRSSBytes int64 // of the largest of them, not the sum
}

// Success reports whether the process is known to have exited with status 0.
func (e Exit) Success() bool { return e.Known && e.Signal == 0 && e.Code == 0 }

// String returns "exit status 3", "killed by SIGKILL", "killed by SIGSEGV (core dumped)" or
// "exit status unknown". A signal without a name, as the real-time ones are, is "signal 40".
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

// ExitOf returns the Exit that a wait status as of wait4(2) stands for, without resource usage.
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

// exitOfChild returns the Exit that waitid(2) reports: code is its si_code, one of the three above,
// status its si_status, an exit status or a signal number.
func exitOfChild(code, status int32) Exit {
	if code == cldExited {
		return Exit{Known: true, Code: int(status)}
	}
	return Exit{Known: true, Signal: syscall.Signal(status), Core: code == cldDumped}
}

// Errors a caller may test for. Each wraps the errno (or the error of package errors) behind it.
var (
	// ErrGone reports that the process, or every member of its group, has ended and was reaped.
	ErrGone error = &sentinel{"process is gone", syscall.ESRCH}
	// ErrNotChild reports that the process is not (or no longer) an unreaped child of this one.
	ErrNotChild error = &sentinel{"not a child of this process", syscall.ECHILD}
	// ErrUnsupported reports that the running kernel does not have what was asked for.
	ErrUnsupported error = &sentinel{"not supported by this kernel", errors.ErrUnsupported}
)

type sentinel struct {
	text  string
	cause error
}

func (s *sentinel) Error() string { return s.text }
func (s *sentinel) Unwrap() error { return s.cause }
