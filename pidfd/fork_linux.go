//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"superd/pidfd/vfork"
)

// Portable reports whether Spawn uses syscall.ForkExec. Then an exec that hangs blocks the whole
// process at Go's next garbage collection, a [Progress] has no pid, and Slots and Room have no
// effect.
const Portable = false

// spawn is Spawn with superd's own fork.
func (a *Attr) spawn() (*Process, error) {
	f := newCloneSpec()
	if a.Slots != nil {
		f = a.Slots.borrow()
		defer a.Slots.recycle(f)
	}
	if err := a.fill(f); err != nil {
		return nil, err
	}
	if s := a.Slots; s != nil {
		s.assign(f)
		defer s.releaseSet(f)
		f.KeepFD = s.keepFD
		if s.fill(f, f.Files) {
			f.CloseFrom, f.CloseRanges = uintptr(s.end), s.closeRanges(f.CloseRanges, f.Files)
		} else {
			copy(f.Files, a.Files)
		}
	}
	before := ticks()
	pid, errno := f.Clone()
	after := ticksAt(f.StartTime) // not now: until the exec is done more than a tick may pass
	runtime.KeepAlive(f)
	pidFD, killed := f.progress.end()
	if errno != 0 {
		return nil, errno
	}
	// It is an unreaped child of this process, so the pid is still its own.
	child := a.Process
	if child == nil {
		child = new(Process)
	}
	*child = Process{pid: int32(pid), fd: pidFD}
	if before == after { // usually: a tick is many times as long as a fork
		child.start = before
	}
	var err error
	if f.Errno != 0 {
		err = f.Errno
	} else if killed {
		err = ErrKilled
	} else if child.fd < 0 {
		// Without CLONE_PIDFD (Linux 5.2) the child can't be supervised.
		err = fmt.Errorf("get a pidfd: %w", errors.Join(ErrUnsupported, unix.Kill(pid, unix.SIGKILL)))
	}
	if err == nil {
		return child, nil
	}
	if waitErr := waitid(unix.P_PID, pid, unix.WEXITED); waitErr != nil {
		err = errors.Join(err, waitErr)
	}
	child.Close()
	return nil, err
}

// ticks returns the time in the unit of Identity, on the clock that the kernel uses for start
// times; 0 without one.
//
// Source: proc_pid_stat(5); the kernel's copy_process takes CLOCK_BOOTTIME, and do_task_stat
// divides it, with the offset that the reader's time namespace has for both.
func ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return ticksAt(now)
}

func ticksAt(t unix.Timespec) uint64 { return uint64(t.Nano()) / (1e9 / ticksPerSecond) }

// A cloneSpec is a [vfork.Spec], which says all that the child needs, with the set of slots through
// which the child gets its files.
type cloneSpec struct {
	vfork.Spec
	progress *Progress
	set      []int // its slots; nil: none
	used     int   // how many of set are in use
}

func newCloneSpec() *cloneSpec {
	f := new(cloneSpec)
	f.Reset()
	return f
}

// track makes the kernel write the child's pidfd and pid into b.
func (f *cloneSpec) track(b *Progress) {
	f.progress = b
	f.PidFD, f.Pid = b.begin()
}

// fill fills f, which is empty, with all that the child needs but its slots.
func (a *Attr) fill(f *cloneSpec) error {
	f.Files, f.Room, f.OpenFiles = append(f.Files, a.Files...), a.Room, a.OpenFiles
	f.Credential, f.Cgroup, f.UserNamespace = a.Credential, a.CgroupFD, a.UserNamespace
	f.PidVariable = a.PidVariable
	if a.Progress != nil {
		f.track(a.Progress)
	} else {
		f.track(new(Progress))
	}
	return f.SetProgram(a.Path, a.Dir, a.Args, a.Env)
}

// forkAndExit forks a child that exits at once with status 0 and sends no SIGCHLD, and returns it.
//
// The child runs on this process's memory while the parent waits. A copy of the memory would cost
// more than all the rest, and then a fault for each page written.
func forkAndExit() (*Process, error) {
	f := newCloneSpec()
	f.track(new(Progress))
	pid, errno := f.Clone()
	runtime.KeepAlive(f)
	pidFD, _ := f.progress.end()
	switch {
	case errno != 0:
		return nil, fmt.Errorf("clone with CLONE_PIDFD: %w", errno)
	case pidFD < 0: // an old kernel ignores the unknown flag
		err := waitid(unix.P_PID, pid, unix.WEXITED|unix.WALL)
		return nil, errors.Join(fmt.Errorf("clone with CLONE_PIDFD: %w", ErrUnsupported), err)
	}
	return &Process{pid: int32(pid), fd: pidFD}, nil
}
