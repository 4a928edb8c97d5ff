package execshim

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run executes the step if this process was started as the shim, and does not return then. main
// must call it first.
//
// Source: execve(2), setrlimit(2), proc_pid_oom_score_adj(5).
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
	failed, report := &Error{Stage: StageRead, Errno: unix.EINVAL}, ReportFD
	if step, ok := parse(os.Args, syscall.Environ()); ok {
		failed = step.run(&report)
	}
	// Without a reader superd has ended; its successor learns only the exit status.
	_, _ = unix.Write(report, failed.report())
	os.Exit(2)
}

// run returns only if a stage fails. report is the descriptor of the report, which may be moved.
func (s *Step) run(report *int) *Error {
	failed := func(stage Stage, err error) *Error {
		errno, _ := errors.AsType[syscall.Errno](err)
		return &Error{Stage: stage, Errno: errno}
	}
	// Before the limit on open files, since both open one.
	if s.ReadyFD != 0 {
		if err := s.passReadyFD(report); err != nil {
			return failed(StageReady, err)
		}
	}
	if s.OOMScoreAdj != nil {
		if err := setOOMScoreAdj(*s.OOMScoreAdj); err != nil {
			return failed(StageOOM, err)
		}
	}
	// Through the package syscall, which then does not restore the inherited limit.
	if s.NoFile != nil {
		if err := setLimit(unix.RLIMIT_NOFILE, *s.NoFile); err != nil {
			return failed(StageNoFile, err)
		}
	}
	if s.Core != nil {
		if err := setLimit(unix.RLIMIT_CORE, *s.Core); err != nil {
			return failed(StageCore, err)
		}
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

func setLimit(resource int, value int64) error {
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: uint64(value), Max: uint64(value)})
}

func setOOMScoreAdj(score int) error {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, strconv.AppendInt(nil, int64(score), 10))
	unix.Close(fd)
	return err
}
