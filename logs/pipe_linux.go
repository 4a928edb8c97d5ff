package logs

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBytes returns how many bytes are in the pipe. TIOCINQ, also known as FIONREAD, does not fail on one.
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
	for {
		moved, err := unix.Splice(pipe, nil, file, &offset, int(n), unix.SPLICE_F_NONBLOCK)
		switch err {
		case nil:
			return moved, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// waitPipe waits until there is something in the pipe and reports whether there is, for at most that long.
func waitPipe(fd int, patience time.Duration) bool {
	events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(events, int(patience.Milliseconds()))
	return n > 0 && err == nil
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

// close lets go of what at has needed.
func (g *glance) close() {
	if g.buffer != nil {
		closeFD(g.ends[0])
		closeFD(g.ends[1])
		g.buffers.Put(g.buffer)
		g.buffer = nil
	}
}

// teePipe has the other pipe hold the next bytes in the pipe, too.
func teePipe(pipe, other int, n int64) (int64, error) {
	for {
		there, err := unix.Tee(pipe, other, int(n), unix.SPLICE_F_NONBLOCK)
		switch err {
		case nil:
			return there, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
