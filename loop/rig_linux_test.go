package loop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var pollers = map[string]func(*testing.T) (*Loop, world){
	"epoll":        startEpoll,
	"milliseconds": startMilliseconds,
	"virtual":      startVirtual,
}

// A real world has pipes and socket pairs.
type real struct {
	testing.TB
	peers map[int]int // by descriptor; -1 when it hung up
}

func startEpoll(t *testing.T) (*Loop, world) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return l, newReal(t)
}

// startMilliseconds returns the loop of a kernel without epoll_pwait2.
func startMilliseconds(t *testing.T) (*Loop, world) {
	l, w := startEpoll(t)
	l.poller.(*epoll).precise = false
	return l, w
}

func newReal(tb testing.TB) *real {
	w := &real{tb, make(map[int]int)}
	tb.Cleanup(func() {
		for fd := range w.peers {
			w.close(fd)
		}
	})
	return w
}

func (w *real) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *real) open() int {
	var p [2]int
	w.must(unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	w.peers[p[0]] = p[1]
	return p[0]
}

func (w *real) duplex() int {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	w.must(err)
	w.peers[p[0]] = p[1]
	return p[0]
}

func (w *real) fill(fd int) {
	_, err := unix.Write(w.peers[fd], []byte("x"))
	w.must(err)
}

func (w *real) empty(fd int) {
	var b [64]byte
	for {
		n, err := unix.Read(fd, b[:])
		if n == 0 || err == unix.EAGAIN {
			return
		}
		w.must(err)
	}
}

func (w *real) hangUp(fd int) {
	w.must(unix.Close(w.peers[fd]))
	w.peers[fd] = -1
}

func (w *real) close(fd int) {
	w.must(unix.Close(fd))
	if peer := w.peers[fd]; peer >= 0 {
		w.must(unix.Close(peer))
	}
	delete(w.peers, fd)
}

func (w *real) spend(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}
