//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A cloneSpec is all that a child needs between fork and exec. It is in memory that the garbage
// collector doesn't move, and needs no lookups: the child must not allocate, lock or grow its
// stack. Without a path the child exits at once with status 0.
type cloneSpec struct {
	path, dir  *byte
	argv, envv **byte
	files      []int // become 0, 1, 2…; -1 leaves a number closed
	// Descriptor that it keeps until its exec, close-on-exec; -1: none
	held int
	// It gets copies of the descriptors below this number only; 0: of all
	closeFrom  uintptr
	leaves     [][2]uintptr // ranges that it closes, from and to
	room       int          // least number of entries of its descriptor table
	openFiles  *unix.Rlimit
	credential *syscall.Credential
	groups     *uint32
	// Signals blocked in the child: those of the thread that forks
	mask uint64

	text     []byte  // what the pointers above point into
	pointers []*byte // pointers of argv and envv, each list with a final nil

	set  []int // its slots; nil: none
	used int   // how many of set are in use
	// 1 once the child has its own descriptor table
	apart uint32

	args     cloneArgs
	progress *Progress
	// CLOCK_BOOTTIME as first read by the child; 0 if that failed
	born unix.Timespec
	// Why the child has not executed its program; parent and child share the memory until then
	errno syscall.Errno
}

// cloneArgs is struct clone_args. Source: clone(2).
type cloneArgs struct {
	flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// closeRangeUnshare is CLOSE_RANGE_UNSHARE. Source: close_range(2).
const closeRangeUnshare = 2

// sigsetBytes is the size of the kernel's sigset_t. Source: rt_sigprocmask(2).
const sigsetBytes = 8

// vfork makes the system call trap, after which a child runs on the caller's stack while the caller
// waits for the child's exec or exit. It returns the result of the system call: in the caller the
// pid or an errno below 0, in the child 0. childTID is both the fourth and the fifth argument:
// which of them is clone's child_tid depends on the architecture, and the other one is ignored.
func vfork(trap, a1, a2, a3, childTID uintptr) (r uintptr)

// For the runtime a fork is a system call that may block: it occupies none of Go's processors, and
// a garbage collection does not wait for it. Package syscall calls these two around each system
// call; Go keeps them accessible for other packages (go.dev/issue/67401).
//
//go:linkname enterSyscall runtime.entersyscall
func enterSyscall()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// afterForkInChild resets each signal that Go handles to its default, in a child that shares its
// parent's memory.
//
//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// clone forks, and returns the child's pid once that has executed its program or ended.
//
// While signals are blocked, so that the child runs no handler, nothing may need the runtime. The
// runtime believes that the goroutine is in the kernel, and may read its stack from here upwards.
// So the child runs in calls below this frame. The parent finds traces of these there, and makes
// only system calls before it returns.
//
//go:noinline
//go:norace
//go:nocheckptr
func (f *cloneSpec) clone() (pid int, errno syscall.Errno) {
	var trap, a1, a2, a3, childTID uintptr = unix.SYS_CLONE3, uintptr(unsafe.Pointer(&f.args)), unsafe.Sizeof(f.args), 0, 0
	if f.args.flags&unix.CLONE_INTO_CGROUP == 0 {
		// clone works under filters that do not know clone3, as in older containers.
		trap, a1, a2, a3 = unix.SYS_CLONE, uintptr(f.args.flags|f.args.exitSignal), 0, uintptr(f.args.pidFD)
		childTID = uintptr(f.args.childTID)
	}
	all := ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&f.mask)), sigsetBytes, 0, 0)
	if !raceDetector {
		enterSyscall()
	}
	r := int(vfork(trap, a1, a2, a3, childTID))
	if r == 0 {
		f.childMain()
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

// childMain runs the child up to its exec or exit. It never returns. The compiler must not know
// that: it might let variables of clone, which the parent needs, share memory with arguments of the
// child.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (f *cloneSpec) childMain() {
	status := uintptr(0)
	if f.path != nil {
		f.errno = f.child()
		status = 127
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// child executes the program. It returns only on failure.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *cloneSpec) child() (errno syscall.Errno) {
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
		f.apart = 1
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

// makeRoom enlarges the descriptor table, which is fast while only one thread has it. The exec
// closes the descriptor opened for that.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *cloneSpec) makeRoom() {
	for i := 0; i < len(f.files) && f.room > 0; i++ {
		if f.files[i] >= 0 {
			// An error is harmless.
			syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_DUPFD_CLOEXEC, uintptr(f.room-1))
			return
		}
	}
}

// place moves each of the files to its number.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (f *cloneSpec) place() syscall.Errno {
	if f.held >= 0 && f.held < len(f.files) {
		if _, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(f.held), unix.F_DUPFD_CLOEXEC, uintptr(len(f.files))); errno != 0 {
			return errno
		}
	}
	// First move files out of the way whose numbers others need: above all of them.
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
