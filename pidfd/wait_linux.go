package pidfd

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wait returns how the process ended, and true, if it has ended; it never blocks. It reaps the
// process, so that its pid may be used again, and remembers the answer: later calls give the same
// without asking the kernel. The error is ErrNotChild when the process has another parent, or was
// reaped by someone else.
//
// Source: waitid(2), P_PIDFD.
func (p *Process) Wait() (Exit, bool, error) {
	if p.exit != nil {
		return *p.exit, true, nil
	}
	exit, ok, err := reap(unix.P_PIDFD, int(p.fd), 0)
	if err != nil {
		return Exit{}, false, fmt.Errorf("wait for process %d: %w", p.pid, err)
	}
	if ok {
		p.exit = new(exit)
	}
	return exit, ok, nil
}

// ExitInfo returns how the process ended, and true, once somebody (whoever its parent is) has reaped
// it: that is when the descriptor hangs up. There is no resource usage in it. The error is
// ErrUnsupported where the kernel does not keep this (before 6.15).
//
// Source: PIDFD_GET_INFO in include/uapi/linux/pidfd.h, fs/pidfs.c.
func (p *Process) ExitInfo() (Exit, bool, error) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := unix.IoctlPidfdInfo(int(p.fd), &info)
	switch err {
	case nil:
	case unix.ENOTTY, unix.EINVAL, unix.ESRCH: // ESRCH: reaped, and nothing kept (6.13, 6.14)
		return Exit{}, false, fmt.Errorf("exit status of process %d: %w", p.pid, ErrUnsupported)
	default:
		return Exit{}, false, fmt.Errorf("exit status of process %d: %w", p.pid, err)
	}
	if info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return Exit{}, false, nil
	}
	return ExitOf(syscall.WaitStatus(info.Exit_code)), true, nil
}

// Peek returns the pid of a child that has ended and is not reaped yet, if there is one, and leaves
// it as it is: until it is reaped, each call returns the same one, so the caller has its owner Wait,
// or calls ReapStranger, before it peeks again.
//
// Source: waitid(2), WNOWAIT.
func Peek() (pid int, ok bool, err error) {
	info, err := waitidNow(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	switch {
	case err == unix.ECHILD: // no children at all
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("look for ended children: %w", err)
	}
	return int(info.Pid), info.Pid != 0, nil
}

// ReapStranger is Wait for an orphan that came to this process as its init or subreaper, and that no
// Process stands for. Only a pid that Peek has just returned is known to be one.
func ReapStranger(pid int) (Exit, bool, error) {
	exit, ok, err := reap(unix.P_PID, pid, unix.WALL)
	if err != nil {
		return Exit{}, false, fmt.Errorf("reap process %d: %w", pid, err)
	}
	return exit, ok, nil
}

// reap waits for one child without blocking, and tells whether it had ended.
func reap(idType, id, options int) (Exit, bool, error) {
	var usage unix.Rusage
	info, err := waitidNow(idType, id, unix.WEXITED|options, &usage)
	if err != nil {
		return Exit{}, false, translate(err)
	}
	if info.Pid == 0 {
		return Exit{}, false, nil
	}
	exit := exitOfChild(info.Code, info.Status)
	exit.UserTime = time.Duration(usage.Utime.Nano())
	exit.SystemTime = time.Duration(usage.Stime.Nano())
	exit.MaxRSSBytes = int64(usage.Maxrss) << 10 // the kernel counts KiB
	return exit, true, nil
}

// A childInfo is a siginfo_t as waitid fills it in. Source: waitid(2), include/uapi/asm-generic/siginfo.h.
type childInfo struct {
	Signo, Errno, Code int32
	_                  [^uint(0) >> 63]int32 // on 64-bit machines the union behind is aligned to 8 bytes
	Pid                int32                 // 0: WNOHANG, and no child has ended
	UID                uint32
	Status             int32
	_                  [128 - 6*4]byte // siginfo_t has 128 bytes; a little more does no harm
}

// waitid calls waitid(2), again when a signal interrupted it. usage may be nil.
func waitid(idType, id, options int, usage *unix.Rusage) (childInfo, error) {
	for {
		var info childInfo
		err := unix.Waitid(idType, id, (*unix.Siginfo)(unsafe.Pointer(&info)), options, usage)
		if err != unix.EINTR {
			return info, err
		}
	}
}

// waitidNow calls waitid(2) with WNOHANG, as one of those that wait for nothing, see [sendSignal].
func waitidNow(idType, id, options int, usage *unix.Rusage) (childInfo, error) {
	var info childInfo
	_, _, errno := unix.RawSyscall6(unix.SYS_WAITID, uintptr(idType), uintptr(id), uintptr(unsafe.Pointer(&info)),
		uintptr(options|unix.WNOHANG), uintptr(unsafe.Pointer(usage)), 0)
	if errno != 0 {
		return childInfo{}, errno
	}
	return info, nil
}
