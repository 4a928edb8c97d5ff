package threads

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe" // for go:linkname, too

	"golang.org/x/sys/unix"
)

// A gate blocks goroutines in the kernel until it is open. The zero gate is closed.
type gate struct{ opened uint32 }

// wait returns when the gate is open. The goroutine gives up its processor at once. So Go creates
// the next thread immediately, and on the thread that now waits. In an ordinary system call Go's
// monitor would have to notice the wait first, and a thread bound to a goroutine would delegate the
// creation.
//
// Between the two calls of the runtime the goroutine has no processor. Nothing there may grow its
// stack or meet the collector, and there must be no branch, which -cover would count through the
// race detector's functions.
//
//go:nosplit
//go:norace
func (g *gate) wait() {
	for {
		entersyscallblock()
		// The kernel checks that the gate is closed; otherwise the error is EAGAIN.
		_, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&g.opened)), futexWait|futexPrivate, 0, 0, 0, 0)
		exitsyscall()
		if errno != unix.EINTR {
			return
		}
	}
}

// open opens the gate permanently.
func (g *gate) open() {
	atomic.StoreUint32(&g.opened, 1)
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&g.opened)), futexWake|futexPrivate, math.MaxInt32, 0, 0, 0)
}

// Source: futex(2).
const (
	futexWait    = 0
	futexWake    = 1
	futexPrivate = 128
)

// The runtime's own functions for entering and leaving a system call that is known to block.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
