package pidfd

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Attr says what to spawn and what the new process gets.
type Attr struct {
	Path       string              // the executable; not searched for in PATH
	Args       []string            // with the program's name as the first
	Env        []string            // all of it: nil is an empty environment
	Dir        string              // the working directory, "" for ours; a relative Path is looked up in it
	Files      []int               // our descriptors that become its 0, 1, 2…; -1 leaves a number closed. They stay ours
	Credential *syscall.Credential // user and groups, nil for ours
	CgroupFD   int                 // an open cgroup v2 directory that it is born in (Linux 5.7), -1: ours
	OpenFiles  *unix.Rlimit        // its limit of open files, see InheritedOpenFiles; nil: ours
	Slots      *Slots              // through which it gets Files; nil: there are none
	Room       int                 // for how many descriptors there is to be room in its table at once, see MakeRoom; 0: as it comes
	Process    *Process            // what Spawn makes the process that it returns, as a part of what has that life; nil: an allocation of its own
}

// Spawn starts a process and returns once it runs its own program, or with the error that kept it
// from doing so, which wraps the errno; then nothing is left of it. Calls may run side by side.
//
// The process leads a session of its own, without a terminal. Signals that Go handles are at their
// defaults in it, while what this process has inherited as blocked or ignored is passed on (and so
// is what signal.Ignore set): a clean start needs signals.ResetInherited in this process first. Of
// our descriptors it gets Files and each that is not close-on-exec, see signals.MarkInheritedCloexec.
//
// Spawn blocks, as any system call does, while the kernel opens the executable: a caller with doubts
// about a file system opens the executable and the directory by itself first.
//
// The child of a failed exec is a zombie for a moment, until it is reaped here by pid; and a
// child may end before Spawn has returned. So a sweep by Peek leaves alone whom it does not know
// while a Spawn is under way, and looks again after it.
//
// It does not use syscall.ForkExec, which copies the whole table of descriptors and learns of a failed exec by a pipe.
//
// Source: clone(2), vfork(2), execve(2).
func Spawn(a *Attr) (*Process, error) {
	f := new(fork)
	if a.Slots != nil {
		f = a.Slots.borrow()
		defer a.Slots.giveUp(f)
	}
	f, err := a.fork(f)
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", a.Path, err)
	}
	if s := a.Slots; s != nil {
		set := s.take()
		f.held = s.held
		used, ok := s.fill(set, f.files)
		defer s.giveBack(set, used)
		if ok {
			f.args.flags |= unix.CLONE_FILES
			f.closeFrom, f.leaves = uintptr(s.end), s.leave(f.leaves[:0], f.files)
		} else {
			copy(f.files, a.Files)
		}
	}
	before := ticks()
	pid, errno := f.split()
	after := ticksAt(f.born) // not now: until the exec is done more than a tick may pass
	runtime.KeepAlive(f)
	if errno != 0 {
		return nil, fmt.Errorf("spawn %s: %w", a.Path, errno)
	}
	// It is our unreaped child, so the pid is still its own.
	child := a.Process
	if child == nil {
		child = new(Process)
	}
	*child = Process{pid: int32(pid), fd: f.pidFD}
	if before == after { // as it is most often: a tick is many times as long as a birth
		child.start = before
	}
	if f.errno != 0 {
		err = f.errno
	} else if child.fd < 0 {
		// Without CLONE_PIDFD (Linux 5.2) there is no way to supervise it.
		err = fmt.Errorf("get a pidfd: %w", errors.Join(ErrUnsupported, unix.Kill(pid, unix.SIGKILL)))
	}
	if err == nil {
		return child, nil
	}
	if _, waitErr := waitid(unix.P_PID, pid, unix.WEXITED, nil); waitErr != nil {
		err = errors.Join(err, waitErr)
	}
	child.Close()
	return nil, fmt.Errorf("spawn %s: %w", a.Path, err)
}

// ticks returns the time in the unit of Identity, by the clock from which the kernel takes the start of a process; 0 without one.
//
// Source: proc_pid_stat(5); the kernel's copy_process takes CLOCK_BOOTTIME, and do_task_stat divides it, with the offset that the reader's time namespace
// has for both.
func ticks() uint64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return ticksAt(now)
}

func ticksAt(t unix.Timespec) uint64 { return uint64(t.Nano()) / (1e9 / ticksPerSecond) }

// fork returns what the child will need, made in f.
func (a *Attr) fork(f *fork) (*fork, error) {
	*f = fork{text: f.text[:0], pointers: f.pointers[:0], files: append(f.files[:0], a.Files...), room: a.Room, openFiles: a.OpenFiles, credential: a.Credential, held: -1, pidFD: -1}
	size := len(a.Path) + 1 + len(a.Dir) + 1
	for _, list := range [...][]string{a.Args, a.Env} {
		for _, s := range list {
			size += len(s) + 1
		}
	}
	f.text = slices.Grow(f.text, size) // it must not be moved below
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
	f.args.flags = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD
	f.args.pidFD = uint64(uintptr(unsafe.Pointer(&f.pidFD)))
	f.args.exitSignal = uint64(unix.SIGCHLD)
	if a.CgroupFD >= 0 {
		// Who knows the one (Linux 5.7) knows the other (5.5), by which the kernel resets the handlers: the runtime would do it one by one, of some
		// fifty signals, while we wait for the child.
		f.args.flags |= unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND
		f.args.cgroup = uint64(a.CgroupFD)
	}
	return f, nil
}

// cString returns a copy of s in f.text as the kernel wants it.
func (f *fork) cString(s string) (*byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, syscall.EINVAL
	}
	at := len(f.text)
	f.text = append(append(f.text, s...), 0)
	return &f.text[at], nil
}

// cStrings does the same with a list.
func (f *fork) cStrings(list []string) (first **byte, err error) {
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

// InheritedOpenFiles returns the limit of open files that the process was started with: Go raises the soft one, which is not meant for the programs that the
// process starts. A program calls it at its start, before other goroutines open files, and keeps the answer.
//
// The runtime does not tell what it has changed, but takes it back before an exec: this has one fail.
func InheritedOpenFiles() (unix.Rlimit, error) {
	var raised, inherited unix.Rlimit
	if err := prlimitFiles(nil, &raised); err != nil {
		return inherited, fmt.Errorf("read limit of open files: %w", err)
	}
	syscall.Exec("", nil, nil) // there is no file without a name
	err := prlimitFiles(&raised, &inherited)
	if err != nil {
		return inherited, fmt.Errorf("set limit of open files: %w", err)
	}
	return inherited, nil
}

// prlimitFiles goes past package syscall, which would take a limit that is set for one to hand to children.
func prlimitFiles(limit, old *unix.Rlimit) error {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
