package execshim

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// Run executes the step if this process was started as the shim, and does not return then. main
// must call it first. open returns the sandbox for a plan; nil: this binary has none.
//
// Source: execve(2).
func Run(open func(plan []string) (Sandbox, error)) {
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
		if len(step.Sandbox) > 0 {
			_, _ = unix.FcntlInt(SandboxFD, unix.F_SETFD, unix.FD_CLOEXEC) // it is open
		}
		box, err := step.open(open)
		if err == nil {
			problem = step.run(box, &report)
		}
	}
	// Without a reader superd has ended; its successor learns only the exit status.
	_, _ = unix.Write(report, []byte(problem.report()))
	os.Exit(2)
}

// open returns the step's sandbox: one that does nothing without a plan.
func (s *Step) open(open func(plan []string) (Sandbox, error)) (Sandbox, error) {
	switch {
	case len(s.Sandbox) == 0:
		return noSandbox{}, nil
	case open == nil:
		return nil, unix.ENOTSUP
	}
	return open(s.Sandbox)
}

// noSandbox is the sandbox of a program that has none.
type noSandbox struct{}

func (noSandbox) Isolate() error              { return nil }
func (noSandbox) Bound() error                { return nil }
func (noSandbox) KeepsCapabilities() bool     { return false }
func (noSandbox) Restrict() error             { return nil }
func (noSandbox) LoadFilter() error           { return nil }
func (noSandbox) Warnings() []sandbox.Failure { return nil }

func failed(stage Stage, err error) *Error {
	if f, ok := errors.AsType[*sandbox.Failure](err); ok {
		return &Error{Stage: StageSandbox, Errno: f.Errno, Sandbox: f}
	}
	errno, _ := errors.AsType[syscall.Errno](err)
	return &Error{Stage: stage, Errno: errno}
}

// run returns only if a stage fails. report is the descriptor of the report, which may be moved.
func (s *Step) run(box Sandbox, report *int) *Error {
	// Before the limit on open files, since both open one.
	if s.ReadyFD != 0 || s.Sockets != 0 {
		if err := s.passFiles(report); err != nil {
			return failed(StagePass, err)
		}
		s.setPid()
	}
	if s.Terminal {
		// The process leads a session, and has no terminal yet: ioctl_tty(2)
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return failed(StageTerminal, err)
		}
	}
	if s.Attributes.limitsMemory() {
		s.reserveMemory()
	}
	if err := box.Isolate(); err != nil {
		return failed(StageSandbox, err)
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
	if err := box.Bound(); err != nil {
		return failed(StageSandbox, err)
	}
	if err := s.changeUser(box.KeepsCapabilities()); err != nil {
		return err
	}
	if err := box.Restrict(); err != nil {
		return failed(StageSandbox, err)
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return failed(StageDir, err)
	}
	// On EPIPE superd has ended. The start is in the journal: the successor finds the program, or
	// ends the shim before.
	if _, err := unix.Write(*report, []byte(reportWarnings(box.Warnings())+atExec)); err != nil && err != unix.EPIPE {
		return failed(StageExecute, err)
	}
	return s.execute(box)
}

// execute executes the program. Between the filter and the exec it makes no other system call and
// needs no memory, as package syscall would for the arguments.
//
// Source: execve(2).
func (s *Step) execute(box Sandbox) *Error {
	path, err := unix.BytePtrFromString(s.Path)
	if err != nil {
		return failed(StageExecute, err)
	}
	args, err := syscall.SlicePtrFromStrings(s.Args)
	if err != nil {
		return failed(StageExecute, err)
	}
	env, err := syscall.SlicePtrFromStrings(s.Env)
	if err != nil {
		return failed(StageExecute, err)
	}
	// Fails, since there is no file without a name, and restores the limit on open files, which Go
	// has raised.
	_ = syscall.Exec("", nil, nil)
	if err := box.LoadFilter(); err != nil {
		return failed(StageSandbox, err)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)),
		uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&env[0])))
	return failed(StageExecute, errno)
}

// changeUser changes user and groups. The thread loses its capabilities unless keep is set.
func (s *Step) changeUser(keep bool) *Error {
	c := s.Credential
	if c == nil {
		return nil
	}
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
	if keep {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return failed(StageUID, err)
		}
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
	return nil
}

// passFiles moves the sockets and the readiness descriptor of the program to their numbers. The
// report and the readiness descriptor first go above all numbers that others need.
func (s *Step) passFiles(report *int) error {
	above := max(s.ReadyFD, SocketFD+s.Sockets-1) + 1
	moved, err := unix.FcntlInt(uintptr(*report), unix.F_DUPFD_CLOEXEC, above)
	if err != nil {
		return err
	}
	if err := unix.Close(*report); err != nil {
		return err
	}
	*report = moved
	ready := -1
	if s.ReadyFD != 0 {
		if ready, err = unix.FcntlInt(ReadyFD, unix.F_DUPFD_CLOEXEC, above); err != nil {
			return err
		}
		if err := unix.Close(ReadyFD); err != nil {
			return err
		}
	}
	for i := range s.Sockets { // upwards: each number is below that of its source
		if err := unix.Dup3(SocketFD+i, firstSocket+i, 0); err != nil {
			return err
		}
	}
	for number := max(SocketFD, firstSocket+s.Sockets); number < SocketFD+s.Sockets; number++ {
		unix.CloseOnExec(number)
	}
	if ready < 0 {
		return nil
	}
	return unix.Dup3(ready, s.ReadyFD, 0)
}

// setPid gives the program its pid, if it expects it and the fork has not done so.
func (s *Step) setPid() {
	if i := slices.Index(s.Env, PidVariable); i >= 0 {
		s.Env[i] += strconv.Itoa(os.Getpid())
	}
}
