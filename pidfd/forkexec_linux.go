//go:build superd_forkexec || !(amd64 || arm64 || riscv64)

package pidfd

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Portable reports whether Spawn uses syscall.ForkExec. Then an exec that hangs blocks the whole
// process at Go's next garbage collection, a [Progress] has no pid, and Slots and Room have no
// effect.
const Portable = true

// A Progress shows a child to other goroutines while its [Spawn] is in progress. In this build its
// pid is unknown until Spawn returns.
type Progress struct {
	mu    sync.Mutex
	pid   int
	ended bool
}

// ErrKilled is the error of a Spawn whose child was killed by [Progress.Kill].
var ErrKilled = errors.New("killed before it executed its program")

// Pid returns the child's pid, and 0 before Spawn has returned.
func (b *Progress) Pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pid
}

// Owns reports whether the ended child with that pid may belong to a Spawn in progress.
func (b *Progress) Owns(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ended || b.pid == pid
}

// Kill returns false: the child can't be found before its exec.
func (b *Progress) Kill() bool { return false }

func (b *Progress) end(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pid, b.ended = pid, true
}

// Slots are unused in this build: syscall.ForkExec copies the whole descriptor table.
type Slots struct{}

// ReserveSlots reserves nothing.
func ReserveSlots(_, _ int) (*Slots, error) { return new(Slots), nil }

// Close does nothing.
func (*Slots) Close() {}

// limiting is held while this process has the limit on open files of a child.
var limiting sync.Mutex

// spawn is Spawn with syscall.ForkExec.
//
// The child inherits OpenFiles from this process, whose soft limit is lowered for the fork. If this
// process has more descriptors than that, the fork is repeated with the original limit.
func (a *Attr) spawn() (*Process, error) {
	pidFD := -1
	attr := &syscall.ProcAttr{Dir: a.Dir, Env: a.Env, Sys: &syscall.SysProcAttr{
		Setsid: true, Credential: a.Credential, PidFD: &pidFD, UseCgroupFD: a.CgroupFD >= 0, CgroupFD: a.CgroupFD,
	}}
	if a.UserNamespace {
		attr.Sys.Cloneflags, attr.Sys.AmbientCaps = unix.CLONE_NEWUSER, allCapabilities()
	}
	for _, fd := range a.Files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err := a.forkExec(attr)
	if a.Progress != nil {
		a.Progress.end(pid)
	}
	switch {
	case err != nil:
		return nil, err
	case pidFD < 0:
		// Without CLONE_PIDFD (Linux 5.2) the child can't be supervised.
		err := errors.Join(ErrUnsupported, unix.Kill(pid, unix.SIGKILL))
		waitErr := waitid(unix.P_PID, pid, unix.WEXITED)
		return nil, errors.Join(err, waitErr)
	}
	child := a.Process
	if child == nil {
		child = new(Process)
	}
	*child = Process{pid: int32(pid), fd: int32(pidFD)}
	return child, nil
}

// allCapabilities returns the numbers of the capabilities that the kernel knows.
func allCapabilities() (numbers []uintptr) {
	for n := uintptr(0); n < 64; n++ {
		if unix.Prctl(unix.PR_CAPBSET_READ, n, 0, 0, 0) != nil {
			break
		}
		numbers = append(numbers, n)
	}
	return numbers
}

func (a *Attr) forkExec(attr *syscall.ProcAttr) (pid int, err error) {
	var own unix.Rlimit
	if a.OpenFiles == nil || prlimitFiles(nil, &own) != nil || own.Cur <= a.OpenFiles.Cur {
		return syscall.ForkExec(a.Path, a.Args, attr)
	}
	limiting.Lock()
	defer limiting.Unlock()
	lowered := unix.Rlimit{Cur: a.OpenFiles.Cur, Max: own.Max}
	if err := prlimitFiles(&lowered, &own); err != nil {
		return 0, err
	}
	pid, err = syscall.ForkExec(a.Path, a.Args, attr)
	_ = prlimitFiles(&own, nil) // a soft limit may always be raised to the hard one
	if errors.Is(err, syscall.EMFILE) {
		return syscall.ForkExec(a.Path, a.Args, attr)
	}
	return pid, err
}

// forkAndExit forks a child that exits at once with status 0 and sends no SIGCHLD, and returns it.
//
// The child runs on a copy of this process's memory, since package syscall has no fork without an
// exec.
//
// Source: clone(2), which gives the order of its arguments on each architecture.
//
//go:norace
//go:nocheckptr
func forkAndExit() (*Process, error) {
	all, mask := ^uint64(0), uint64(0)
	pidFD := int32(-1)
	flags, stack := uintptr(unix.CLONE_PIDFD), uintptr(0)
	if runtime.GOARCH == "s390x" {
		flags, stack = stack, flags
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&mask)), unsafe.Sizeof(all), 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags, stack, uintptr(unsafe.Pointer(&pidFD)), 0, 0, 0)
	for pid == 0 && errno == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0,
		unsafe.Sizeof(all), 0, 0)
	switch {
	case errno != 0:
		return nil, fmt.Errorf("clone with CLONE_PIDFD: %w", errno)
	case pidFD < 0: // an old kernel ignores the unknown flag
		err := waitid(unix.P_PID, int(pid), unix.WEXITED|unix.WALL)
		return nil, errors.Join(fmt.Errorf("clone with CLONE_PIDFD: %w", ErrUnsupported), err)
	}
	return &Process{pid: int32(pid), fd: pidFD}, nil
}
