package pidfd

import (
	"math"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe finds out what the running kernel can do, by trying it. It forks once and waits for that
// child, so a program calls it at its start, before it has children, and keeps the answer.
func Probe() Features {
	self, err := Open(os.Getpid())
	if err != nil {
		return Features{}
	}
	defer self.Close()
	inode, err := self.inode()
	return Features{
		Pidfd:           true,
		CloneIntoCgroup: probeCloneIntoCgroup(),
		// Signal 0 is not delivered. That we may lead no group (ESRCH) is an answer, too.
		GroupSignal: unix.PidfdSendSignal(int(self.fd), 0, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP) != unix.EINVAL,
		Pidfs:       err == nil && inode != 0,
		ExitInfo:    probeExitInfo(),
	}
}

// probeCloneIntoCgroup asks for a child in a cgroup whose descriptor cannot be open: a kernel that
// knows the flag says EBADF, an older one EINVAL or ENOSYS. Nothing is cloned, nor is our memory before
// it says so, as it would be without CLONE_VM.
//
// Source: clone(2), struct clone_args.
func probeCloneIntoCgroup() bool {
	args := struct {
		flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
	}{flags: unix.CLONE_INTO_CGROUP | unix.CLONE_VM | unix.CLONE_VFORK, cgroup: math.MaxInt32}
	_, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EBADF
}

// probeExitInfo lets a child end and be reaped, and asks for its exit: nothing less shows whether
// the kernel keeps it.
func probeExitInfo() bool {
	pid, errno := forkAndExit()
	if errno != 0 {
		return false
	}
	child, err := Open(pid)
	if err == nil {
		defer child.Close()
	}
	if _, err := waitid(unix.P_PID, pid, unix.WEXITED|unix.WALL, nil); err != nil || child == nil {
		return false
	}
	exit, ok, err := child.ExitInfo()
	return err == nil && ok && exit.Success()
}

// forkAndExit forks a child that ends at once with status 0 and sends no SIGCHLD, and returns its pid.
//
// The child runs on our memory while we wait. A copy of the memory would cost more than all the rest, and then a fault for each page that is written to.
func forkAndExit() (pid int, errno syscall.Errno) {
	f := new(fork)
	f.args.flags = unix.CLONE_VM | unix.CLONE_VFORK
	return f.split()
}
