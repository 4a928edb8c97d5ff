package pidfd

import (
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe determines by trial what the running kernel supports and permits. The first call forks once
// and waits for the child, so make it at the start of a program, before it has children.
func Probe() Features { return probed() }

var probed = sync.OnceValue(probe)

func probe() Features {
	f := Features{CloneIntoCgroup: probeCloneIntoCgroup(), CloseRange: hasCloseRange()}
	if self, err := unix.PidfdOpen(os.Getpid(), 0); err == nil {
		f.PidfdOpen = true
		unix.Close(self)
	}
	child, err := forkAndExit()
	if err != nil {
		f.Pidfd = err
		return f
	}
	defer child.Close()
	// Signal 0 is not delivered. ESRCH, since the child leads no group, also shows support.
	f.PidfdSignal = sendSignal(child.fd, 0, 0) == nil
	group := sendSignal(child.fd, 0, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	f.GroupSignal = group == nil || group == unix.ESRCH
	inode, err := child.inode()
	f.Pidfs = err == nil && inode != 0
	if f.Pidfd = waitid(unix.P_PIDFD, int(child.fd), unix.WEXITED|unix.WALL); f.Pidfd != nil {
		f.Pidfd = fmt.Errorf("waitid with P_PIDFD: %w", f.Pidfd)
		_ = waitid(unix.P_PID, int(child.pid), unix.WEXITED|unix.WALL)
		return f
	}
	// Only a reaped child shows whether the kernel keeps its exit.
	exit, ok, err := child.ExitInfo()
	f.ExitInfo = err == nil && ok && exit.Success()
	return f
}

// probeCloneIntoCgroup requests a child in a cgroup whose descriptor can't be open. A kernel that
// knows the flag returns EBADF, an older one EINVAL or ENOSYS. Nothing is cloned; CLONE_VM avoids a
// copy of the memory before the error.
//
// Source: clone(2), struct clone_args.
func probeCloneIntoCgroup() bool {
	args := struct {
		flags, pidFD, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
	}{flags: unix.CLONE_INTO_CGROUP | unix.CLONE_VM | unix.CLONE_VFORK, cgroup: math.MaxInt32}
	_, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	return errno == unix.EBADF
}

// hasCloseRange passes an invalid range: EINVAL means that the call is known and permitted.
func hasCloseRange() bool { return unix.CloseRange(1, 0, unix.CLOSE_RANGE_UNSHARE) == unix.EINVAL }
