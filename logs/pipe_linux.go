package logs

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pipeBytes returns how many bytes are in the pipe. TIOCINQ, also known as FIONREAD, does not fail
// on one. It waits for a write to the pipe that is in progress, which may last as long as the
// writer's page faults. So it must not be called on the loop, nor under a lock that the loop takes.
func pipeBytes(fd int) int64 {
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

// splicePipe moves at most n bytes from the pipe into the file at offset and returns how many: 0 if
// the pipe is empty. A byte leaves the pipe when it is in the file, even if an error or a signal
// interrupts it, SIGKILL included.
func splicePipe(pipe, file int, offset, n int64) (int64, error) {
	return retryPipe(func() (int64, error) { return splice(pipe, file, &offset, n) })
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

// pipeReadable reports whether something is in the pipe, or about to be. It never blocks.
func pipeReadable(fd int) bool {
	var atOnce unix.Timespec
	events := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	// it does not block, so Go's scheduler need not be informed
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&events)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0)
	return n > 0 && errno == 0
}

// pipeFull reports whether a write to the pipe would block.
func pipeFull(fd int) bool {
	events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(events, 0)
	return n == 0 && err == nil
}

// waitPipe waits for timeout at most until more than rest bytes are in the pipe, and reports
// whether there are.
func waitPipe(fd int, rest int64, timeout time.Duration) bool {
	if rest == 0 {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(events, int(timeout.Milliseconds()))
		return n > 0 && err == nil
	}
	// poll(2) reports nothing new for a pipe that has bytes already
	const pause = 50 * time.Microsecond
	for ; timeout > 0; timeout -= 2 * pause {
		request := unix.NsecToTimespec(int64(pause))
		_ = unix.Nanosleep(&request, nil)
		if pipeBytes(fd) > rest {
			return true
		}
	}
	return false
}

// growPipe raises the pipe's capacity to size bytes. It changes nothing if the limits of the system
// or the user forbid it.
func growPipe(fd, size int) {
	if now, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && now < size {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size)
	}
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
		defer closeFD(ends[0])
		defer closeFD(ends[1])
	}
	if _, err := write(from[1], newline); err != nil {
		return err
	}
	_, err := retryPipe(func() (int64, error) { return splice(from[0], to[1], nil, 1) })
	return err
}

// A peekBuffer reads what is in a pipe without taking it out. It makes a pipe of its own on first
// use.
type peekBuffer struct {
	buffers *sync.Pool // of *[chunkBytes]byte
	refused *refusedCalls
	drain   *drainState // has the bytes that were read ahead
	buffer  *[chunkBytes]byte
	ends    [2]int
	null    int // /dev/null; 0: not opened yet; -1: not available
}

// next returns the next bytes in the pipe: at most n and at most a chunk, or fewer if they are
// spread over many pages. They are valid until the next call.
func (p *peekBuffer) next(pipe int, n int64) ([]byte, error) {
	if p.refused.tee.Load() {
		ahead := p.drain.ensureReadAhead()
		err := ahead.fill(pipe, n)
		text := ahead.text()
		return text[:min(n, int64(len(text)))], err
	}
	if p.buffer == nil {
		if err := unix.Pipe2(p.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		p.buffer = p.buffers.Get().(*[chunkBytes]byte)
	}
	available, err := teePipe(pipe, p.ends[1], min(n, chunkBytes))
	if isRefused(err) {
		p.refused.noTee()
		return p.next(pipe, n)
	}
	text := p.buffer[:0]
	for int64(len(text)) < available && err == nil {
		var got int
		got, err = readPipe(p.ends[0], p.buffer[len(text):available])
		text = p.buffer[:len(text)+got]
	}
	return text, err
}

// buffered returns how many of the next bytes were read ahead, out of the pipe.
func (p *peekBuffer) buffered() int64 { return int64(len(p.drain.ahead.text())) }

// bytes returns how many bytes are in the pipe or were read ahead.
func (p *peekBuffer) bytes(pipe int) int64 { return pipeBytes(pipe) + p.buffered() }

// discard takes n bytes out of the pipe, or fewer if another reader took some. What next returned
// stays valid.
func (p *peekBuffer) discard(pipe, n int) (taken int64, err error) {
	if taken = int64(len(p.drain.ahead.take(n))); taken == int64(n) {
		return taken, nil
	}
	if p.null == 0 {
		if p.null, err = openFD("/dev/null", unix.O_WRONLY); err != nil {
			p.null = -1 // then read them
		}
	}
	var scratch []byte
	for rest := int64(n) - taken; rest > 0; rest = int64(n) - taken {
		var got int64
		if p.null >= 0 {
			if got, err = spliceAway(pipe, p.null, rest); err == unix.EINVAL || isRefused(err) {
				closeFD(p.null)
				p.null = -1
				continue
			}
		} else {
			if scratch == nil {
				scratch = make([]byte, min(n, 4<<10))
			}
			var read int
			read, err = readPipe(pipe, scratch[:min(len(scratch), int(rest))])
			got = int64(read)
		}
		if got == 0 || err != nil {
			return taken, err
		}
		taken += got
	}
	return taken, nil
}

// close releases what next and discard have opened.
func (p *peekBuffer) close() {
	if p.buffer != nil {
		closeFD(p.ends[0])
		closeFD(p.ends[1])
		p.buffers.Put(p.buffer)
		p.buffer = nil
	}
	if p.null > 0 {
		closeFD(p.null)
		p.null = 0
	}
}
