package pidfd

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Wait returns how the process ended, and true, if it has ended; it never blocks. It reaps the
// process, so that its pid may be reused, and stores the result, which later calls return. The
// error is ErrNotChild if the process has another parent, or was reaped elsewhere.
//
// Source: waitid(2), P_PIDFD.
func (p *Process) Wait() (Exit, bool, error) {
	if p.exit != nil {
		return *p.exit, true, nil
	}
	idType, id, err := p.waitTarget()
	if err == unix.ESRCH {
		err = unix.ECHILD // reaped elsewhere
	}
	var exit Exit
	var ok bool
	if err == nil {
		exit, ok, err = reap(idType, id, 0)
	}
	if err = translate(err); err != nil {
		return Exit{}, false, fmt.Errorf("wait for process %d: %w", p.pid, err)
	}
	if ok {
		p.exit = new(exit)
	}
	return exit, ok, nil
}

// Await waits until the process ends, and reaps it. It blocks.
func (p *Process) Await() (Exit, error) {
	for {
		exit, ended, err := p.Wait()
		if ended || err != nil {
			return exit, err
		}
		polled := []unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && err != unix.EINTR {
			return Exit{}, fmt.Errorf("poll process %d: %w", p.Pid(), err)
		}
	}
}

// ExitInfo returns how the process ended, and true, once its parent, whichever that is, has reaped
// it: the descriptor hangs up at that time. It has no resource usage. The error is ErrUnsupported
// if the kernel does not keep the exit (before 6.15).
//
// Source: PIDFD_GET_INFO in include/uapi/linux/pidfd.h, fs/pidfs.c.
func (p *Process) ExitInfo() (Exit, bool, error) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	err := unix.IoctlPidfdInfo(int(p.fd), &info)
	switch err {
	case nil:
	case unix.ENOTTY, unix.EINVAL, unix.ESRCH: // ESRCH: reaped, and not kept (6.13, 6.14)
		return Exit{}, false, fmt.Errorf("exit status of process %d: %w", p.pid, ErrUnsupported)
	default:
		return Exit{}, false, fmt.Errorf("exit status of process %d: %w", p.pid, err)
	}
	if info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return Exit{}, false, nil
	}
	return ExitOf(syscall.WaitStatus(info.Exit_code)), true, nil
}

// Peek returns the pid of a child that has ended and is not reaped yet, if there is one, without
// reaping it. Until it is reaped, each call returns the same pid. So call Wait for it, or
// ReapUnknown, before the next Peek.
//
// Source: waitid(2), WNOWAIT.
func Peek() (pid int, ok bool, err error) {
	info, err := waitidNow(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	switch {
	case err == unix.ECHILD: // no children
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("look for ended children: %w", err)
	}
	return int(info.Pid), info.Pid != 0, nil
}

// HasChildren reports whether this process has an unreaped child.
//
// Source: waitid(2), ECHILD.
func HasChildren() bool {
	_, err := waitidNow(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	return err == nil
}

// ReapUnknown is Wait for an orphan that this process, as init or subreaper, is the parent of, and
// that has no Process. Call it only with a pid that Peek has just returned.
func ReapUnknown(pid int) (Exit, bool, error) {
	exit, ok, err := reap(unix.P_PID, pid, unix.WALL)
	if err != nil {
		return Exit{}, false, fmt.Errorf("reap process %d: %w", pid, translate(err))
	}
	return exit, ok, nil
}

// reap waits for a child without blocking, and reports whether it had ended.
func reap(idType, id, options int) (Exit, bool, error) {
	var usage unix.Rusage
	info, err := waitidNow(idType, id, unix.WEXITED|options, &usage)
	if err != nil {
		return Exit{}, false, err
	}
	if info.Pid == 0 {
		return Exit{}, false, nil
	}
	exit := exitOfChild(info.Code, info.Status)
	exit.UserTime = time.Duration(usage.Utime.Nano())
	exit.SystemTime = time.Duration(usage.Stime.Nano())
	exit.MaxRSSBytes = int64(usage.Maxrss) << 10 // the kernel reports KiB
	return exit, true, nil
}

// A childInfo is the siginfo_t that waitid fills in. Source: waitid(2),
// include/uapi/asm-generic/siginfo.h.
type childInfo struct {
	Signo, Errno, Code int32
	// 64-bit machines align the following union to 8 bytes
	_      [^uint(0) >> 63]int32
	Pid    int32 // 0: WNOHANG, and no child has ended
	UID    uint32
	Status int32
	_      [128 - 6*4]byte // siginfo_t has 128 bytes; a few more are harmless
}

// waitid calls waitid(2), again if a signal interrupts it.
func waitid(idType, id, options int) error {
	for {
		err := unix.Waitid(idType, id, nil, options, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// waitidNow calls waitid(2) with WNOHANG. It does not block, and bypasses the runtime like
// [sendSignal].
func waitidNow(idType, id, options int, usage *unix.Rusage) (childInfo, error) {
	var info childInfo
	_, _, errno := unix.RawSyscall6(unix.SYS_WAITID, uintptr(idType), uintptr(id), uintptr(unsafe.Pointer(&info)),
		uintptr(options|unix.WNOHANG), uintptr(unsafe.Pointer(usage)), 0)
	if errno != 0 {
		return childInfo{}, errno
	}
	return info, nil
}
