package loop

import (
	"testing"
	"time"
)

// A rig is a loop under test, with descriptors that the test makes ready.
type rig struct {
	*testing.T
	*Loop
	world
}

// A world acts on a loop from outside.
type world interface {
	open() int           // a new descriptor, not ready: the read end of a pipe
	duplex() int         // a new descriptor, writable: an end of a socket pair
	fill(fd int)         // makes fd readable; if it is already, that is one more edge
	empty(fd int)        // reads all there is
	hangUp(fd int)       // closes the other end
	close(fd int)        // without the loop's knowledge
	spend(time.Duration) // lets time pass, as a slow callback does
}

// onEach runs a test body for every poller.
func onEach(t *testing.T, body func(*rig)) {
	for name, start := range pollers {
		t.Run(name, func(t *testing.T) {
			l, w := start(t)
			body(&rig{t, l, w})
		})
	}
}

// run runs the loop until the test stops it, and fails a test that never does.
func (r *rig) run() {
	r.Helper()
	r.Root().After(20*time.Second, func() {
		r.Error("the loop was not stopped")
		r.Stop()
	})
	if err := r.Loop.Run(); err != nil {
		r.Error(err)
	}
}

// stopAfter stops the loop in the n-th turn from now, or the one after.
func (r *rig) stopAfter(n int) {
	r.Post(func() {
		if n--; n <= 0 {
			r.Stop()
		} else {
			r.stopAfter(n)
		}
	})
}

// must returns the watch of an OnReadable or the like.
func (r *rig) must(w *Watch, err error) *Watch {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	return w
}

// A simulated world is that of a Virtual.
type simulated struct{ v *Virtual }

func startVirtual(t *testing.T) (*Loop, world) {
	v := NewVirtual(1)
	return v.Loop, simulated{v}
}

func (s simulated) ready(fd int) Ready { return s.v.kernel.files[fd].ready }

func (s simulated) open() int { return s.v.NewFD() }

func (s simulated) duplex() int {
	fd := s.v.NewFD()
	s.v.SetReady(fd, Writable)
	return fd
}

func (s simulated) fill(fd int)           { s.v.SetReady(fd, s.ready(fd)|Readable) }
func (s simulated) empty(fd int)          { s.v.SetReady(fd, s.ready(fd)&^Readable) }
func (s simulated) hangUp(fd int)         { s.v.SetReady(fd, s.ready(fd)|Hangup) }
func (s simulated) close(fd int)          { s.v.CloseFD(fd) }
func (s simulated) spend(d time.Duration) { s.v.Advance(d) }
