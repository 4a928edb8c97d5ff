// Package disposition reads and sets what signals do to this process, beside the runtime of Go.
package disposition

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxSignal is the highest signal number.
const MaxSignal = 64

// An Action is what a signal does: the default action, nothing, or a call of a handler. It is the
// kernel's struct sigaction. Only the handler is used here; it is the first field on all
// architectures except MIPS. The rest is flags, a mask and, on some, a restorer.
type Action struct {
	handler uintptr
	_       [4]uint64
}

// ignore is SIG_IGN. Source: the kernel's asm-generic/signal-defs.h.
const ignore = 1

// Default returns the default action.
func Default() Action { return Action{} }

// Ignore returns the action that does nothing.
func Ignore() Action { return Action{handler: ignore} }

// Ignores reports whether the signal does nothing.
func (a Action) Ignores() bool { return a.handler == ignore }

// Get returns what a signal does.
func Get(sig syscall.Signal) (a Action, err error) {
	err = rtSigaction(sig, nil, &a)
	return a, err
}

// Set sets what a signal does, and returns what it did before.
func Set(sig syscall.Signal, a Action) (before Action, err error) {
	err = rtSigaction(sig, &a, &before)
	return before, err
}

// rtSigaction sets the disposition of sig unless set is nil, and stores the old one unless old is
// nil.
//
// Source: rt_sigaction(2). It takes the size of the kernel's sigset_t, 64 bits.
func rtSigaction(sig syscall.Signal, set, old *Action) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), MaxSignal/8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
