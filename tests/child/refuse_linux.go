package child

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// withFlag has the names of calls that are refused with a bit in their first argument only:
// sandboxes don't know CLONE_PIDFD, many systems have no user namespaces, and services may be
// confined to some families of sockets.
var withFlag = map[string]struct{ call, flag uint32 }{
	"clone_pidfd":   {unix.SYS_CLONE, unix.CLONE_PIDFD},
	"clone_newuser": {unix.SYS_CLONE, unix.CLONE_NEWUSER},
	"netlink":       {unix.SYS_SOCKET, unix.AF_NETLINK}, // superd uses none of those above it
}

// Refusable returns the system calls that the mode refuse knows, by name.
func Refusable() map[string]uint32 {
	calls := map[string]uint32{
		"pidfd_open": unix.SYS_PIDFD_OPEN, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL,
		"pidfd_getfd": unix.SYS_PIDFD_GETFD, "clone3": unix.SYS_CLONE3,
		"close_range": unix.SYS_CLOSE_RANGE, "splice": unix.SYS_SPLICE, "tee": unix.SYS_TEE,
		"memfd_create": unix.SYS_MEMFD_CREATE, "statx": unix.SYS_STATX, "openat2": unix.SYS_OPENAT2,
		"faccessat2": unix.SYS_FACCESSAT2, "epoll_pwait2": unix.SYS_EPOLL_PWAIT2,
		"timerfd": unix.SYS_TIMERFD_CREATE, "signalfd": unix.SYS_SIGNALFD4, "eventfd": unix.SYS_EVENTFD2,
		"landlock": unix.SYS_LANDLOCK_CREATE_RULESET, "mount_setattr": unix.SYS_MOUNT_SETATTR,
		"seccomp": unix.SYS_SECCOMP,
		"mount":   unix.SYS_MOUNT, "unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
		"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER,
		"accept4":            unix.SYS_ACCEPT4, "recvmsg": unix.SYS_RECVMSG, "ioctl": unix.SYS_IOCTL,
	}
	for name, with := range withFlag {
		calls[name] = with.call
	}
	switch runtime.GOARCH { // others have no such call, or another number
	case "amd64":
		calls["vfork"] = 58
	case "386":
		calls["vfork"] = 190
	}
	return calls
}

// refuse executes a command for which the kernel refuses system calls, and for all that it starts.
func refuse(args []string) error {
	errno, ok := map[string]syscall.Errno{"ENOSYS": unix.ENOSYS, "EPERM": unix.EPERM, "EACCES": unix.EACCES}[args[1]]
	if !ok {
		return fmt.Errorf("refuse with %q: want ENOSYS, EPERM or EACCES", args[1])
	}
	calls := Refusable()
	var filter []unix.SockFilter
	for name := range strings.SplitSeq(args[0], ",") {
		number, ok := calls[name]
		if !ok {
			return fmt.Errorf("refuse %q: no such system call here", name)
		}
		refusal := answer(unix.SECCOMP_RET_ERRNO | uint32(errno))
		if flag := withFlag[name].flag; flag != 0 {
			filter = append(filter, load(0), jumpIf(unix.BPF_JEQ, number, 0, 3),
				load(firstArgument()), jumpIf(unix.BPF_JSET, flag, 0, 1), refusal)
			continue
		}
		filter = append(filter, load(0), jumpIf(unix.BPF_JEQ, number, 0, 1), refusal)
	}
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	path, err := exec.LookPath(args[2])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter belongs to this thread, which executes the command
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("gain no rights: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, failed := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failed != 0 {
		return fmt.Errorf("set filter: %w", failed)
	}
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, args[2:], os.Environ()))
}

// load returns an instruction of a filter, and so do the functions below. Source: seccomp(2),
// linux/bpf_common.h.
func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jumpIf(test uint16, value uint32, is, isNot uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: is, Jf: isNot, K: value}
}

// firstArgument returns the offset in struct seccomp_data of the lower half of the first argument.
// There is one architecture only, and the number of the call is at 0.
func firstArgument() uint32 {
	const args = 16
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 { // big-endian
		return args + 4
	}
	return args
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}
