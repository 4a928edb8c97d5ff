package execshim

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run executes the step if this process was started as the shim, and does not return then. main
// must call it first.
//
// Source: execve(2).
func Run() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	// Working directory and credentials belong to the thread that calls exec.
	runtime.LockOSThread()
	if _, err := unix.FcntlInt(ReportFD, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		os.Stderr.WriteString(Name + " is internal to superd\n")
		os.Exit(2)
	}
	problem, report := &Error{Stage: StageRead, Errno: unix.EINVAL}, ReportFD
	if step, ok := parse(os.Args, syscall.Environ()); ok {
		problem = step.run(&report)
	}
	// Without a reader superd has ended; its successor learns only the exit status.
	_, _ = unix.Write(report, problem.report())
	os.Exit(2)
}

// run returns only if a stage fails. report is the descriptor of the report, which may be moved.
func (s *Step) run(report *int) *Error {
	// Before the limit on open files, since both open one.
	if s.ReadyFD != 0 {
		if err := s.passReadyFD(report); err != nil {
			return failed(StageReady, err)
		}
	}
	if s.Attributes.limitsMemory() {
		s.reserveMemory()
	}
	if err := s.Attributes.Apply(); err != nil {
		return err
	}
	if s.Umask != nil {
		unix.Umask(int(*s.Umask))
	}
	if c := s.Credential; c != nil {
		groups := make([]int, len(c.Groups))
		for i, gid := range c.Groups {
			groups[i] = int(gid)
		}
		if err := syscall.Setgroups(groups); err != nil {
			return failed(StageGroups, err)
		}
		if err := syscall.Setresgid(int(c.Gid), int(c.Gid), int(c.Gid)); err != nil {
			return failed(StageGID, err)
		}
		if err := syscall.Setresuid(int(c.Uid), int(c.Uid), int(c.Uid)); err != nil {
			return failed(StageUID, err)
		}
		// Ambient capabilities of a superd that is not root must not pass to a program of another
		// user. The kernel clears them by itself only if the user was root. Older kernels have
		// none.
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
			return failed(StageUID, err)
		}
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(StageDir, err)
	}
	// On EPIPE superd has ended. The start is in the journal: the successor finds the program, or
	// ends the shim before.
	if _, err := unix.Write(*report, []byte{atExec}); err != nil && err != unix.EPIPE {
		return failed(StageExecute, err)
	}
	return failed(StageExecute, syscall.Exec(s.Path, s.Args, s.Env))
}

// passReadyFD moves the readiness descriptor of the program to its number.
func (s *Step) passReadyFD(report *int) error {
	if s.ReadyFD == *report {
		moved, err := unix.FcntlInt(uintptr(*report), unix.F_DUPFD_CLOEXEC, ReadyFD+1)
		if err != nil {
			return err
		}
		*report = moved
	}
	if s.ReadyFD == ReadyFD {
		return nil
	}
	if err := unix.Dup3(ReadyFD, s.ReadyFD, 0); err != nil {
		return err
	}
	return unix.Close(ReadyFD)
}
