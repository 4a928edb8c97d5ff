package enforce

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// checkFilter finds out whether the plan's filter can be applied, as a failure of LoadFilter can't
// become a warning.
func (s *Sandbox) checkFilter() error {
	if len(s.plan.Filter) == 0 {
		return unix.ENOTSUP
	}
	kind := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&kind)))
	if errno != 0 {
		return errno
	}
	s.filter = s.plan.Filter
	return nil
}

// LoadFilter applies the filter. After it the thread may make only calls that it allows. A failure
// is never a warning: those are reported already, and checkFilter has found what is missing.
func (s *Sandbox) LoadFilter() error {
	if len(s.filter) == 0 {
		return nil
	}
	program := unix.SockFprog{
		Len:    uint16(len(s.filter)),
		Filter: (*unix.SockFilter)(unsafe.Pointer(&s.filter[0])), // an Instruction has its fields
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return &sandbox.Failure{Key: s.plan.FilterKeys[0], Errno: errno}
	}
	return nil
}
