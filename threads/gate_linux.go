package threads

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe" // for go:linkname, too

	"golang.org/x/sys/unix"
)

// A gate is what goroutines wait for in the kernel. Its zero value is shut.
type gate struct{ opened uint32 }

// wait returns when the gate is open. The goroutine leaves its processor to others at once, which is what has Go make the next thread at once, and by the
// thread that waits now: of who waits in an ordinary system call Go's monitor has to find that out first, and a thread to which a goroutine is bound has
// another one make threads.
//
// Between the two calls of the runtime the goroutine has no processor: there may be nothing that could grow its stack or meet the collector, and no branch, where
// -cover would count with what the race detector has for that.
//
//go:nosplit
//go:norace
func (g *gate) wait() {
	for {
		entersyscallblock()
		// That it is shut is looked at by the kernel: when it is not, the error is EAGAIN.
		_, _, errno := syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&g.opened)), futexWait|futexPrivate, 0, 0, 0, 0)
		exitsyscall()
		if errno != unix.EINTR {
			return
		}
	}
}

// open lets all pass, for good.
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

// How the runtime itself enters a system call of which it knows that it waits, and leaves it.

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
