//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// closeRangeUnshare is CLOSE_RANGE_UNSHARE. Source: close_range(2).
const closeRangeUnshare = 2

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// childMain runs the child up to its exec or exit. It never returns. The compiler must not know
// that: it might let variables of [Clone], which the parent needs, share memory with arguments of
// the child.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) childMain() {
	status := uintptr(0)
	if s.path != nil {
		s.Errno = s.execute()
		status = 127
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}

// execute executes the program. It returns only on failure.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) execute() (errno syscall.Errno) {
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&s.StartTime)), 0)
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		return errno
	}
	if s.args.flags&unix.CLONE_CLEAR_SIGHAND == 0 {
		afterForkInChild()
	}
	if _, _, errno = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, sigsetBytes, 0, 0); errno != 0 {
		return errno
	}
	if s.CloseFrom != 0 {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, s.CloseFrom, 1<<32-1, closeRangeUnshare); errno != 0 {
			return errno
		}
		s.OwnTable = 1
		for _, r := range s.CloseRanges {
			syscall.RawSyscall(unix.SYS_CLOSE_RANGE, r[0], r[1], 0)
		}
	}
	if s.UserNamespace {
		if errno = s.keepCapabilities(); errno != 0 {
			return errno
		}
	}
	if c := s.Credential; c != nil {
		if !c.NoSetGroups {
			if _, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(unsafe.Pointer(s.groups)), 0); errno != 0 {
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
	if s.dir != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(s.dir)), 0, 0); errno != 0 {
			return errno
		}
	}
	if errno = s.moveFiles(); errno != 0 {
		return errno
	}
	s.growTable()
	s.writePid()
	if s.OpenFiles != nil {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(s.OpenFiles)), 0, 0, 0); errno != 0 {
			return errno
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(s.path)), uintptr(unsafe.Pointer(s.argv)), uintptr(unsafe.Pointer(s.envv)))
	return errno
}

// writePid writes the child's pid, which the kernel has put there, into its environment.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) writePid() {
	if s.pidAt == 0 {
		return
	}
	end := s.pidAt
	for n := *s.Pid; n > 0; n /= 10 {
		end++
	}
	for n := *s.Pid; n > 0; n /= 10 {
		end--
		s.text[end] = '0' + byte(n%10)
	}
}

// keepCapabilities makes all permitted capabilities ambient, so that the exec does not end them: in
// the new user namespace the child's user is unknown.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) keepCapabilities() (errno syscall.Errno) {
	header, sets := uintptr(unsafe.Pointer(&s.capHeader)), uintptr(unsafe.Pointer(&s.capSets))
	if _, _, errno = syscall.RawSyscall(unix.SYS_CAPGET, header, sets, 0); errno != 0 {
		return errno
	}
	s.capSets[0].Inheritable = s.capSets[0].Permitted
	s.capSets[1].Inheritable = s.capSets[1].Permitted
	if _, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, header, sets, 0); errno != 0 {
		return errno
	}
	for capability := uintptr(0); capability < 64; capability++ {
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, capability, 0, 0, 0)
		if errno != 0 {
			return 0 // the kernel has no further ones
		}
	}
	return 0
}

// growTable enlarges the descriptor table, which is fast while only one thread has it. The exec
// closes the descriptor opened for that.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) growTable() {
	for i := 0; i < len(s.Files) && s.Room > 0; i++ {
		if s.Files[i] >= 0 {
			// An error is harmless.
			syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_DUPFD_CLOEXEC, uintptr(s.Room-1))
			return
		}
	}
}

// moveFiles moves each of the files to its number.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (s *Spec) moveFiles() syscall.Errno {
	if s.KeepFD >= 0 && s.KeepFD < len(s.Files) {
		if _, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(s.KeepFD), unix.F_DUPFD_CLOEXEC, uintptr(len(s.Files))); errno != 0 {
			return errno
		}
	}
	// First move files whose numbers others need above all numbers.
	for i := 0; i < len(s.Files); i++ {
		if fd := s.Files[i]; fd >= 0 && fd < i {
			moved, _, errno := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, uintptr(len(s.Files)))
			if errno != 0 {
				return errno
			}
			s.Files[i] = int(moved)
		}
	}
	for i := 0; i < len(s.Files); i++ {
		var errno syscall.Errno
		switch fd := s.Files[i]; {
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
