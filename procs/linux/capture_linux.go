package linux

import (
	"sync"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/loop"
	"superd/procs/host"
)

// A capture is a pipe of which superd keeps the last bytes.
type capture struct {
	read int // nonblocking; loop only
	tail []byte
	cut  bool

	mu    sync.Mutex
	write int // -1: closed
}

// maxTail is how many bytes a capture keeps.
const maxTail = 4096

// Capture implements [host.Host].
func (k *Host) Capture(scope *loop.Scope) (host.Capture, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	c := &capture{read: ends[0], write: ends[1]}
	scope.Defer(c.close)
	if err := unix.SetNonblock(c.read, true); err != nil { // the command's end stays blocking
		return nil, err
	}
	_, err := scope.OnReadable(c.read, c.readOnce)
	return c, err
}

// Writer implements [host.Capture].
func (c *capture) Writer() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return syscalls.RetryInt(func() (int, error) {
		return unix.FcntlInt(uintptr(c.write), unix.F_DUPFD_CLOEXEC, 0)
	})
}

// Tail implements [host.Capture]. All that a command has written fits the pipe or was read.
func (c *capture) Tail() (string, bool) {
	for range maxPipeReads {
		if !c.readSome() {
			break
		}
	}
	return string(c.tail), c.cut
}

// maxPipeReads bounds how often Tail reads: a process that outlives its command may write on.
const maxPipeReads = 64

func (c *capture) readOnce() { c.readSome() }

// readSome reads once and reports whether there was something.
func (c *capture) readSome() bool {
	var buffer [maxTail]byte
	n, err := syscalls.RetryInt(func() (int, error) { return unix.Read(c.read, buffer[:]) })
	if err != nil || n <= 0 {
		return false
	}
	c.tail = append(c.tail, buffer[:n]...)
	if more := len(c.tail) - maxTail; more > 0 {
		c.tail, c.cut = append(c.tail[:0], c.tail[more:]...), true
	}
	return true
}

func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = unix.Close(c.read)
	_ = unix.Close(c.write)
	c.write = -1
}
