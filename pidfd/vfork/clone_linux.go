//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package vfork

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// vfork makes the system call trap, after which a child runs on the caller's stack while the caller
// waits for the child's exec or exit. It returns the result of the system call: in the caller the
// pid or an errno below 0, in the child 0. childTID is both the fourth and the fifth argument:
// which of them is clone's child_tid depends on the architecture, and the other one is ignored.
func vfork(trap, a1, a2, a3, childTID uintptr) (r uintptr)

//go:linkname enterSyscall runtime.entersyscall
func enterSyscall()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// Clone forks, and returns the child's pid once that has executed its program or ended; then Errno
// says whether it was executed. The errno is that of a fork that failed.
//
// While signals are blocked, so that the child runs no handler, nothing may need the runtime. The
// runtime believes that the goroutine is in the kernel, and may read its stack from here upwards.
// So the child runs in calls below this frame. The parent finds traces of these there, and makes
// only system calls before it returns.
//
//go:noinline
//go:norace
//go:nocheckptr
func (s *Spec) Clone() (pid int, errno syscall.Errno) {
	s.setArgs()
	var trap, a1, a2, a3, childTID uintptr = unix.SYS_CLONE3, uintptr(unsafe.Pointer(&s.args)), unsafe.Sizeof(s.args), 0, 0
	if s.args.flags&unix.CLONE_INTO_CGROUP == 0 {
		// clone works under filters that do not know clone3, as in older containers.
		trap, a1, a2, a3 = unix.SYS_CLONE, uintptr(s.args.flags|s.args.exitSignal), 0, uintptr(s.args.pidFD)
		childTID = uintptr(s.args.childTID)
	}
	all := ^uint64(0)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&s.mask)), sigsetBytes, 0, 0)
	if !RaceDetector {
		enterSyscall()
	}
	r := int(vfork(trap, a1, a2, a3, childTID))
	if r == 0 {
		s.childMain()
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, sigsetBytes, 0, 0)
	if !RaceDetector {
		exitSyscall()
	}
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return r, 0
}

// setArgs sets the arguments of clone3 and clone, and what the child can't look up.
func (s *Spec) setArgs() {
	if c := s.Credential; c != nil && len(c.Groups) > 0 {
		s.groups = &c.Groups[0]
	}
	s.args = cloneArgs{flags: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PIDFD, pidFD: address(s.PidFD)}
	if s.path != nil {
		s.args.flags |= unix.CLONE_CHILD_SETTID
		s.args.childTID, s.args.exitSignal = address(s.Pid), uint64(unix.SIGCHLD)
	}
	if s.CloseFrom != 0 {
		s.args.flags |= unix.CLONE_FILES
	}
	if s.UserNamespace {
		s.args.flags |= unix.CLONE_NEWUSER
		s.capHeader.Version = unix.LINUX_CAPABILITY_VERSION_3
	}
	if s.path != nil && s.Cgroup >= 0 {
		// A kernel with CLONE_INTO_CGROUP (5.7) also has CLONE_CLEAR_SIGHAND (5.5), with which it
		// resets the handlers. The runtime would reset some fifty signals one by one while this
		// thread waits for the child.
		s.args.flags |= unix.CLONE_INTO_CGROUP | unix.CLONE_CLEAR_SIGHAND
		s.args.cgroup = uint64(s.Cgroup)
	}
}

func address(p *int32) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
