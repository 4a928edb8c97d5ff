package pipe

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// Bytes returns how many bytes are in the pipe. TIOCINQ, also known as FIONREAD, does not fail
// on one. It waits for a write to the pipe that is in progress, which may last as long as the
// writer's page faults. So it must not be called on the loop, nor under a lock that the loop takes.
func Bytes(fd int) int64 {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		panic(fmt.Sprintf("count bytes in pipe %d: %v", fd, err))
	}
	return int64(n)
}

// readPipe reads what is in the pipe into p. It returns 0 if the pipe is empty.
func readPipe(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// spliceAway moves at most n bytes from the pipe into /dev/null, without a copy.
func spliceAway(pipe, null int, n int64) (int64, error) {
	return retryPipe(func() (int64, error) { return splice(pipe, null, nil, n) })
}

// maxSplice limits one splice, in bytes. The kernel's own limit is higher; this one fits into an
// int of 32 bits.
const maxSplice = 1 << 30

func splice(pipe, file int, offset *int64, n int64) (int64, error) {
	moved, err := unix.Splice(pipe, nil, file, offset, int(min(n, maxSplice)), unix.SPLICE_F_NONBLOCK)
	return int64(moved), err // its type depends on the architecture
}

// teePipe duplicates the next bytes of the pipe into the other one.
func teePipe(pipe, other int, n int64) (int64, error) {
	return retryPipe(func() (int64, error) { return unix.Tee(pipe, other, int(n), unix.SPLICE_F_NONBLOCK) })
}

// retryPipe repeats f, which takes bytes from a pipe, while signals interrupt it. It returns 0 for
// an empty pipe.
func retryPipe(f func() (int64, error)) (int64, error) {
	for {
		n, err := f()
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// Readable reports whether something is in the pipe, or about to be. It never blocks.
func Readable(fd int) bool {
	var atOnce unix.Timespec
	events := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	// it does not block, so Go's scheduler need not be informed
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&events)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return n > 0 && errno == 0
}

// Full reports whether a write to the pipe would block.
func Full(fd int) bool {
	events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(events, 0)
	return n == 0 && err == nil
}

// Capacities of pipes in bytes.
const (
	UsualCapacity = 64 << 10  // of a new one
	BusyCapacity  = 256 << 10 // for one that is full again and again
)

// Grow raises the pipe's capacity to size bytes and returns what it is then. It changes nothing if
// the limits of the system or the user forbid it.
func Grow(fd, size int) (capacity int) {
	capacity, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0)
	if err == nil && capacity < size {
		if grown, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size); err == nil {
			return grown
		}
	}
	return capacity
}

// isRefused reports whether the kernel or a filter refuses a system call.
func isRefused(err error) bool { return err == unix.ENOSYS || err == unix.EPERM || err == unix.EACCES }

// trySplice moves a byte between two new pipes by splice(2) and returns the error.
func trySplice() error {
	var from, to [2]int
	for _, ends := range []*[2]int{&from, &to} {
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		defer syscalls.Close(ends[0])
		defer syscalls.Close(ends[1])
	}
	if _, err := syscalls.Write(from[1], []byte{0}); err != nil {
		return err
	}
	_, err := retryPipe(func() (int64, error) { return splice(from[0], to[1], nil, 1) })
	return err
}
