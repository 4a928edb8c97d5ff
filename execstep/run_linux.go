package execstep

import (
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Run runs the step, if this process was started as one: then it does not return. main calls it first of all.
//
// Source: execve(2), setrlimit(2), proc_pid_oom_score_adj(5).
func Run() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	// Working directory and credentials are the executing thread's own matter at the end.
	runtime.LockOSThread()
	if _, err := unix.FcntlInt(ReportFD, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		os.Stderr.WriteString(Name + " is a part of superd that superd alone starts\n")
		os.Exit(2)
	}
	failed, report := &Error{Stage: StageRead, Errno: unix.EINVAL}, ReportFD
	if step, ok := parse(os.Args, syscall.Environ()); ok {
		failed = step.run(&report)
	}
	_, _ = unix.Write(report, failed.report()) // no reader: superd has gone; the next one learns the exit status alone
	os.Exit(2)
}

// run returns only when a stage has failed. report is where the report goes, which may be moved.
func (s *Step) run(report *int) *Error {
	failed := func(stage string, err error) *Error {
		errno, _ := err.(syscall.Errno)
		return &Error{Stage: stage, Errno: errno}
	}
	// Both come before the limit on open files: they make one.
	if s.ReadyFD != 0 {
		if err := s.handOver(report); err != nil {
			return failed(StageReady, err)
		}
	}
	if s.OOMScoreAdj != nil {
		if err := setOOMScoreAdj(*s.OOMScoreAdj); err != nil {
			return failed(StageOOM, err)
		}
	}
	// By the package syscall, which then knows that the limit is not to be set back to what the step inherited.
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
		// What a superd that is not root may do beyond its user is not for another user's program. The kernel clears it by itself only
		// when the user was root. Older kernels have no such capabilities.
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
			return failed(StageUID, err)
		}
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(StageDir, err)
	}
	// Superd may have gone. The start is on record: the next one finds the program, or ends the step before.
	if _, err := unix.Write(*report, []byte{atExec}); err != nil && err != unix.EPIPE {
		return failed(StageExecute, err)
	}
	return failed(StageExecute, syscall.Exec(s.Path, s.Args, s.Env))
}

// handOver puts the descriptor by which the program tells that it is ready where it belongs.
func (s *Step) handOver(report *int) error {
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
