package cgroup

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// A reserve is a descriptor that is closed when no other is free: killing processes must not fail
// for lack of one.
type reserve struct {
	mu sync.Mutex
	fd int // -1: it was closed and could not be opened again
}

func newReserve() *reserve {
	r := &reserve{fd: -1}
	r.refill()
	return r
}

func (r *reserve) refill() {
	fd, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	r.fd = fd
}

// use calls f, and once more without the reserved descriptor if f finds none free. f needs one at a
// time. It may be called from any goroutine.
func (r *reserve) use(f func() error) error {
	err := f()
	if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
	defer r.refill()
	return f()
}

func (r *reserve) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd >= 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
}
