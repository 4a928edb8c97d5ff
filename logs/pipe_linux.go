package logs

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pipeBytes returns how many bytes are in the pipe. TIOCINQ, also known as FIONREAD, does not fail on one. It waits for who writes at the moment,
// which takes as long as his memory does: so it is not for the loop, nor for who holds what the loop takes.
func pipeBytes(fd int) int64 {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		panic(fmt.Sprintf("count bytes in pipe %d: %v", fd, err))
	}
	return int64(n)
}

// readPipe reads what is in the pipe into p. It returns 0 when the pipe is empty.
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

// splicePipe moves at most n bytes from the pipe into the file at offset and returns how many: 0 when the pipe is empty.
// A byte leaves the pipe when it is in the file, even where a signal, SIGKILL too, or an error ends this in between.
func splicePipe(pipe, file int, offset, n int64) (int64, error) {
	return whileThere(func() (int64, error) { return unix.Splice(pipe, nil, file, &offset, int(n), unix.SPLICE_F_NONBLOCK) })
}

// spliceAway moves at most n bytes from the pipe into /dev/null, which costs no copy.
func spliceAway(pipe, null int, n int64) (int64, error) {
	return whileThere(func() (int64, error) { return unix.Splice(pipe, nil, null, nil, int(n), unix.SPLICE_F_NONBLOCK) })
}

// teePipe has the other pipe hold the next bytes in the pipe, too.
func teePipe(pipe, other int, n int64) (int64, error) {
	return whileThere(func() (int64, error) { return unix.Tee(pipe, other, int(n), unix.SPLICE_F_NONBLOCK) })
}

// whileThere calls f, which takes bytes from a pipe, again where a signal interrupted it. An empty pipe is 0 bytes.
func whileThere(f func() (int64, error)) (int64, error) {
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

// pipeHasSome reports whether something is in the pipe, or about to be. It waits for nobody.
func pipeHasSome(fd int) bool {
	var atOnce unix.Timespec
	events := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&events)), 1, uintptr(unsafe.Pointer(&atOnce)), 0, 0, 0) // as it does not wait, Go's runtime is not told
	return n > 0 && errno == 0
}

// pipeFull reports whether who writes into the pipe would have to wait.
func pipeFull(fd int) bool {
	events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(events, 0)
	return n == 0 && err == nil
}

// waitPipe waits until there are more bytes in the pipe than rest, and reports whether there are, for at most that long.
func waitPipe(fd int, rest int64, patience time.Duration) bool {
	if rest == 0 {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(events, int(patience.Milliseconds()))
		return n > 0 && err == nil
	}
	const pause = 50 * time.Microsecond // the kernel doesn't tell of more bytes in a pipe that holds some
	for ; patience > 0; patience -= 2 * pause {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(pause)}, nil)
		if pipeBytes(fd) > rest {
			return true
		}
	}
	return false
}

// growPipe makes the pipe hold size bytes if it holds less. Where the limits of the system or of the user don't allow
// that, it stays as it is.
func growPipe(fd, size int) {
	if now, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err == nil && now < size {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size)
	}
}

// A glance looks at what is in a pipe without taking it out. It makes a pipe of its own when first needed.
type glance struct {
	buffers *sync.Pool // of *[chunkBytes]byte
	buffer  *[chunkBytes]byte
	ends    [2]int
	null    int // /dev/null; 0: not opened yet; -1: can't be had
}

// at returns the next bytes in the pipe, at most n and at most a chunk, or fewer if they lie in many pages. They are
// good until the next call.
func (g *glance) at(pipe int, n int64) ([]byte, error) {
	if g.buffer == nil {
		if err := unix.Pipe2(g.ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		g.buffer = g.buffers.Get().(*[chunkBytes]byte)
	}
	there, err := teePipe(pipe, g.ends[1], min(n, chunkBytes))
	text := g.buffer[:0]
	for int64(len(text)) < there && err == nil {
		var got int
		got, err = readPipe(g.ends[0], g.buffer[len(text):there])
		text = g.buffer[:len(text)+got]
	}
	return text, err
}

// drop takes n bytes out of the pipe, and fewer where somebody else was faster. It doesn't touch what at has returned.
func (g *glance) drop(pipe, n int) (taken int64, err error) {
	if g.null == 0 {
		if g.null, err = openFD("/dev/null", unix.O_WRONLY); err != nil {
			g.null = -1 // read them
		}
	}
	var scratch []byte
	for rest := int64(n); rest > 0; rest = int64(n) - taken {
		var got int64
		if g.null >= 0 {
			if got, err = spliceAway(pipe, g.null, rest); err == unix.EINVAL {
				closeFD(g.null)
				g.null = -1
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

// close lets go of what at and drop have needed.
func (g *glance) close() {
	if g.buffer != nil {
		closeFD(g.ends[0])
		closeFD(g.ends[1])
		g.buffers.Put(g.buffer)
		g.buffer = nil
	}
	if g.null > 0 {
		closeFD(g.null)
		g.null = 0
	}
}
