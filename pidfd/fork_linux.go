//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Portable reports whether Spawn uses syscall.ForkExec. Then an exec that hangs blocks the whole
// process at Go's next garbage collection, a [Progress] has no pid, and Slots and Room have no
// effect.
const Portable = false

// spawn is Spawn with superd's own fork.
func (a *Attr) spawn() (*Process, error) {
	f := new(cloneSpec)
	if a.Slots != nil {
		f = a.Slots.borrow()
		defer a.Slots.giveUp(f)
	}
	f, err := a.cloneSpec(f)
	if err != nil {
		return nil, err
	}
	if s := a.Slots; s != nil {
		s.take(f)
		defer s.giveBack(f)
		f.held = s.held
		if s.fill(f, f.files) {
			f.args.flags |= unix.CLONE_FILES
			f.closeFrom, f.leaves = uintptr(s.end), s.leave(f.leaves[:0], f.files)
		} else {
			copy(f.files, a.Files)
		}
	}
	before := ticks()
	pid, errno := f.clone()
	after := ticksAt(f.born) // not now: until the exec is done more than a tick may pass
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
	if f.errno != 0 {
		err = f.errno
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

// cloneSpec fills f with all that the child needs.
func (a *Attr) cloneSpec(f *cloneSpec) (*cloneSpec, error) {
	*f = cloneSpec{text: f.text[:0], pointers: f.pointers[:0], files: append(f.files[:0], a.Files...), room: a.Room, openFiles: a.OpenFiles, credential: a.Credential, held: -1, progress: a.Progress}
	if f.progress == nil {
		f.progress = new(Progress)
	}
	size := len(a.Path) + 1 + len(a.Dir) + 1
	for _, list := range [...][]string{a.Args, a.Env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	f.text = slices.Grow(f.text, size) // must not be reallocated below
	f.pointers = slices.Grow(f.pointers, len(a.Args)+1+len(a.Env)+1)
	var err error
	if f.path, err = f.cString(a.Path); err != nil {
		return nil, err
	}
	if f.argv, err = f.cStrings(a.Args); err != nil {
		return nil, err
	}
	if f.envv, err = f.cStrings(a.Env); err != nil {
		return nil, err
	}
	if a.Dir != "" {
		if f.dir, err = f.cString(a.Dir); err != nil {
			return nil, err
		}
	}
	if c := a.Credential; c != nil && len(c.Groups) > 0 {
		f.groups = &c.Groups[0]
	}
	f.args.flags = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD | unix.CLONE_CHILD_SETTID
	f.args.pidFD, f.args.childTID = f.progress.begin()
	f.args.exitSignal = uint64(unix.SIGCHLD)
	if a.CgroupFD >= 0 {
		// A kernel with CLONE_INTO_CGROUP (5.7) also has CLONE_CLEAR_SIGHAND (5.5), with which it
		// resets the handlers. The runtime would reset some fifty signals one by one while this
		// thread waits for the child.
		f.args.flags |= unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND
		f.args.cgroup = uint64(a.CgroupFD)
	}
	return f, nil
}

// cString appends s to f.text with a final NUL, and returns its address.
func (f *cloneSpec) cString(s string) (*byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, syscall.EINVAL
	}
	at := len(f.text)
	f.text = append(append(f.text, s...), 0)
	return &f.text[at], nil
}

// cStrings does the same for a list.
func (f *cloneSpec) cStrings(list []string) (first **byte, err error) {
	at := len(f.pointers)
	for _, s := range list {
		p, err := f.cString(s)
		if err != nil {
			return nil, err
		}
		f.pointers = append(f.pointers, p)
	}
	f.pointers = append(f.pointers, nil)
	return &f.pointers[at], nil
}

// forkAndExit forks a child that exits at once with status 0 and sends no SIGCHLD, and returns it.
//
// The child runs on this process's memory while the parent waits. A copy of the memory would cost
// more than all the rest, and then a fault for each page written.
func forkAndExit() (*Process, error) {
	f, progress := new(cloneSpec), new(Progress)
	f.args.flags = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD
	f.args.pidFD, _ = progress.begin()
	pid, errno := f.clone()
	pidFD, _ := progress.end()
	switch {
	case errno != 0:
		return nil, fmt.Errorf("clone with CLONE_PIDFD: %w", errno)
	case pidFD < 0: // an old kernel ignores the unknown flag
		err := waitid(unix.P_PID, pid, unix.WEXITED|unix.WALL)
		return nil, errors.Join(fmt.Errorf("clone with CLONE_PIDFD: %w", ErrUnsupported), err)
	}
	return &Process{pid: int32(pid), fd: pidFD}, nil
}
