package disposition

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Mask is a set of signals in the kernel's form: bit n-1 is signal n.
type Mask uint64

// All has all signals.
const All = ^Mask(0)

// Has reports whether the set has a signal.
func (m Mask) Has(sig syscall.Signal) bool { return m>>(sig-1)&1 != 0 }

// Without returns the set without some signals.
func (m Mask) Without(sigs ...syscall.Signal) Mask {
	for _, sig := range sigs {
		m &^= 1 << (sig - 1)
	}
	return m
}

// String returns a form that [ParseMask] reads.
func (m Mask) String() string { return strconv.FormatUint(uint64(m), 16) }

// ParseMask reads what [Mask.String] has returned.
func ParseMask(text string) (Mask, error) {
	n, err := strconv.ParseUint(text, 16, 64)
	return Mask(n), err
}

// Blocked returns the signals that the calling thread blocks.
func Blocked() (m Mask, err error) {
	err = rtSigprocmask(unix.SIG_BLOCK, nil, &m)
	return m, err
}

// SetBlocked sets the signals that the calling thread blocks, and returns those that it blocked
// before. Threads that the runtime of Go makes later do not have them.
func SetBlocked(m Mask) (before Mask, err error) {
	err = rtSigprocmask(unix.SIG_SETMASK, &m, &before)
	return before, err
}

// Source: rt_sigprocmask(2).
func rtSigprocmask(how int, set, old *Mask) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, uintptr(how),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), MaxSignal/8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// OpenQueue returns a new descriptor from which those of the signals are read that all threads
// block. A read blocks the goroutine only.
//
// Source: signalfd(2).
func OpenQueue(m Mask) (*os.File, error) {
	fd, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&m)),
		MaxSignal/8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("signalfd", errno)
	}
	return os.NewFile(fd, "signals"), nil
}
