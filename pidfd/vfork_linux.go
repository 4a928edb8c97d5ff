package pidfd

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A fork is all that a child needs between its birth and its exec. It lies where the garbage collector doesn't move it, and holds nothing
// that would have to be looked up: the child may not allocate, lock or grow its stack. Without a path the child ends at once, with status 0.
type fork struct {
	path, dir  *byte
	argv, envv **byte
	files      []int        // become 0, 1, 2…; -1 leaves a number closed
	held       int          // it keeps this one until its exec, close-on-exec; -1: none
	closeFrom  uintptr      // of our descriptors it gets a copy of those below only; 0: of all
	leaves     [][2]uintptr // of these it closes, from and to
	room       int          // its table has room for so many, at least
	openFiles  *unix.Rlimit
	credential *syscall.Credential
	groups     *uint32
	mask       uint64 // the signals that the child has blocked: those of the thread that forks

	text     []byte  // what the pointers above point into
	pointers []*byte // those of argv and envv, each with a nil behind them

	args  cloneArgs
	pidFD int32
	born  unix.Timespec // CLOCK_BOOTTIME as the child has read it first of all; 0 where it could not
	errno syscall.Errno // why the child has not executed anything; the two share their memory until then
}

// cloneArgs is struct clone_args. Source: clone(2).
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// closeRangeUnshare is CLOSE_RANGE_UNSHARE. Source: close_range(2).
const closeRangeUnshare = 2

// sigsetBytes is the size of the kernel's sigset_t. Source: rt_sigprocmask(2).
const sigsetBytes = 8

// vfork makes the system call trap, which is one of those after which a child goes on beside the caller, on its stack, while the caller waits for
// it to execute or to end. It returns what the system call did: in the caller the pid or an errno below 0, in the child 0.
func vfork(trap, a1, a2, a3 uintptr) (r uintptr)

// To the runtime a birth is a system call that may block: as such it keeps none of Go's processors, and a garbage collection does not wait for it.
// These two are what package syscall has around each, and kept for others that make some by themselves (go.dev/issue/67401).
//
//go:linkname enterSyscall runtime.entersyscall
func enterSyscall()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// afterForkInChild gives each signal that Go handles its default, in a child that shares the memory of its parent.
//
//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// split is where the one process becomes two. It returns the child's pid once that has executed or ended.
//
// From the block of signals on, of which the child must not run a handler, to their return nothing may need the runtime: it has been told that the
// goroutine is in the kernel, and may meanwhile look at its stack from here upwards. So what the child does goes on in calls below, and the
// parent, which finds traces of that there, makes none but system calls before it leaves.
//
//go:noinline
//go:norace
//go:nocheckptr
func (f *fork) split() (pid int, errno syscall.Errno) {
	var trap, a1, a2, a3 uintptr = unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.args)), unsafe.Sizeof(f.args), 0
	if f.args.flags&unix.CLONE_INTO_CGROUP == 0 {
		// Where a filter of system calls does not know clone3, as in older containers, this one works.
		trap, a1, a2, a3 = unix.SYS_CLONE, uintptr(f.args.flags|f.args.exitSignal), 0, uintptr(unsafe.Pointer(&f.pidFD))
	}
	all := ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&f.mask)), sigsetBytes, 0, 0)
	if !raceDetector {
		enterSyscall()
	}
	r := int(vfork(trap, a1, a2, a3))
	if r == 0 {
		f.live()
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&f.mask)), 0, sigsetBytes, 0, 0)
	if !raceDetector {
		exitSyscall()
	}
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return r, 0
}

// live is the child's life up to its exec, or to its end without one. It never returns, of which the compiler must not know: it might let variables of split,
// which the parent has use for, share their places with what the child is given.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (f *fork) live() {
	status := uintptr(0)
	if f.path != nil {
		f.errno = f.child()
		status = 127
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// child is what the child does. It returns only when it could not execute.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *fork) child() (errno syscall.Errno) {
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&f.born)), 0)
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		return errno
	}
	if f.args.flags&unix.CLONE_CLEAR_SIGHAND == 0 {
		afterForkInChild()
	}
	if _, _, errno = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&f.mask)), 0, sigsetBytes, 0, 0); errno != 0 {
		return errno
	}
	if f.closeFrom != 0 {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, f.closeFrom, 1<<32-1, closeRangeUnshare); errno != 0 {
			return errno
		}
		for _, r := range f.leaves {
			syscall.RawSyscall(unix.SYS_CLOSE_RANGE, r[0], r[1], 0)
		}
	}
	if c := f.credential; c != nil {
		if !c.NoSetGroups {
			if _, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(unsafe.Pointer(f.groups)), 0); errno != 0 {
				return errno
			}
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETGID, uintptr(c.Gid), 0, 0); errno != 0 {
			return errno
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SETUID, uintptr(c.Uid), 0, 0); errno != 0 {
			return errno
		}
	}
	if f.dir != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(f.dir)), 0, 0); errno != 0 {
			return errno
		}
	}
	if errno = f.place(); errno != 0 {
		return errno
	}
	f.makeRoom()
	if f.openFiles != nil {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(f.openFiles)), 0, 0, 0); errno != 0 {
			return errno
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(f.path)), uintptr(unsafe.Pointer(f.argv)), uintptr(unsafe.Pointer(f.envv)))
	return errno
}

// makeRoom has the table be as large as it is to be, which nobody waits for as long as it is one thread's. What it opens for that is closed by the exec.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *fork) makeRoom() {
	for i := 0; i < len(f.files) && f.room > 0; i++ {
		if f.files[i] >= 0 {
			syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_DUPFD_CLOEXEC, uintptr(f.room-1)) // with less room it goes, too
			return
		}
	}
}

// place gives each of the files its number.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *fork) place() syscall.Errno {
	if f.held >= 0 && f.held < len(f.files) {
		if _, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(f.held), unix.F_DUPFD_CLOEXEC, uintptr(len(f.files))); errno != 0 {
			return errno
		}
	}
	// One that lies where another is to be moves out of the way first: above all of them.
	for i := 0; i < len(f.files); i++ {
		if fd := f.files[i]; fd >= 0 && fd < i {
			moved, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, uintptr(len(f.files)))
			if errno != 0 {
				return errno
			}
			f.files[i] = int(moved)
		}
	}
	for i := 0; i < len(f.files); i++ {
		var errno syscall.Errno
		switch fd := f.files[i]; {
		case fd < 0:
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(i), 0, 0)
		case fd == i:
			_, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0)
		default:
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(i), 0)
		}
		if errno != 0 {
			return errno
		}
	}
	return 0
}
