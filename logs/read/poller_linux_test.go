package read

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/pipe"
)

// A reader drains a pipe into nothing.
type reader struct {
	*testing.T
	poller  *Poller
	in, out int // ends of the pipe

	mu     sync.Mutex
	watch  Watch
	drains int
	pause  time.Duration // asked for instead of an event by the next drain
}

func newReader(t *testing.T, p *Poller) *reader {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscalls.Close(ends[0])
		syscalls.Close(ends[1])
	})
	return &reader{T: t, poller: p, in: ends[0], out: ends[1]}
}

func (r *reader) begin() *reader {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.poller.Watch(&r.watch, r, Pipe{FD: r.in}); err != nil {
		r.Fatal(err)
	}
	return r
}

func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.poller.Unwatch(&r.watch, Pipe{FD: r.in})
}

// Readable implements [Drainer].
func (r *reader) Readable(*Wakeup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drains++
	for buffer := make([]byte, 64); ; {
		if n, err := unix.Read(r.in, buffer); n <= 0 || err != nil {
			break
		}
	}
	if pause := r.pause; pause > 0 && r.poller.After(&r.watch, pause) {
		r.pause = 0
		return
	}
	r.watch.Arm(Pipe{FD: r.in})
}

// drained returns how often Readable was called.
func (r *reader) drained() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drains
}

func (r *reader) print() {
	r.Helper()
	if _, err := syscalls.Write(r.out, []byte("a line\n")); err != nil {
		r.Fatal(err)
	}
}

// line prints a line and waits until it is read.
func (r *reader) line() {
	r.Helper()
	r.print()
	r.poll("the line to be read", func() bool { return pipe.Bytes(r.in) == 0 })
}

// poll waits for a condition without an event.
func (r *reader) poll(what string, ok func() bool) {
	r.Helper()
	for start := time.Now(); !ok(); time.Sleep(50 * time.Microsecond) {
		if time.Since(start) > 90*time.Second {
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

func newPoller() (p *Poller, group *sync.WaitGroup) {
	p, group = new(Poller), new(sync.WaitGroup)
	p.Init(group)
	return p, group
}

// TestPollerEndsWithTheLastWatch: the last watch ends the epoll and its workers; the next watch
// starts new ones.
func TestPollerEndsWithTheLastWatch(t *testing.T) {
	p, group := newPoller()
	for range 20 {
		one, other := newReader(t, p).begin(), newReader(t, p).begin()
		one.line()
		one.end()
		other.line()
		p.mu.Lock()
		set := p.pollSet
		p.mu.Unlock()
		if now := p.State(); now.Watches != 1 || now.Alive == 0 {
			t.Fatalf("state with one watch: %+v", now)
		}
		other.end()
		group.Wait()
		if now := p.State(); now.Watches+now.Alive+now.Waiting+now.Working > 0 || set.alive > 0 {
			t.Fatalf("state without a watch: %+v, %d workers are left", now, set.alive)
		}
		for _, fd := range []int{set.epoll, set.endFD} {
			if _, err := unix.EpollWait(fd, make([]unix.EpollEvent, 1), 0); err == nil {
				t.Errorf("descriptor %d is an epoll after the last watch", fd)
			}
		}
	}
}

// TestLateEventOfReusedIndex: an event for a removed drainer is ignored, even if another has its
// index now.
func TestLateEventOfReusedIndex(t *testing.T) {
	p, group := newPoller()
	stay, removed := newReader(t, p).begin(), newReader(t, p).begin()
	late := removed.watch
	removed.end()
	next := newReader(t, p).begin()
	if next.watch.index != late.index || next.watch.generation == late.generation {
		t.Fatalf("index %d, generation %d, want the index %d of the one before and another generation than %d",
			next.watch.index, next.watch.generation, late.index, late.generation)
	}
	before := p.State().Returns
	removed.print()
	// An event for the old drainer comes after its removal.
	if err := control(late.epoll, unix.EPOLL_CTL_ADD, removed.in, late.index, late.generation); err != nil {
		t.Fatal(err)
	}
	stay.poll("the late event", func() bool {
		now := p.State()
		return now.Returns > before && now.Alive == now.Waiting
	})
	if gone, wrong := removed.drained(), next.drained(); gone > 0 || wrong > 0 {
		t.Errorf("%d drains of the one that is gone, %d of the next one, want none", gone, wrong)
	}
	next.line()
	stay.line()
	stay.end()
	next.end()
	group.Wait()
}

// TestAfter: a drainer that asked for a call after a pause gets it then, and no event before; one
// that is no longer watched gets none. Several are called in the order of their times.
func TestAfter(t *testing.T) {
	p, _ := newPoller()
	one, other, gone := newReader(t, p).begin(), newReader(t, p).begin(), newReader(t, p).begin()
	one.pause, other.pause, gone.pause = 60*time.Millisecond, 20*time.Millisecond, time.Millisecond
	began := time.Now()
	for _, r := range []*reader{gone, one, other} {
		r.line()
		r.print()
	}
	gone.end()
	other.poll("the shorter pause", func() bool { return other.drained() == 2 })
	if n := one.drained(); n > 1 && time.Since(began) < 60*time.Millisecond {
		t.Error("the longer pause is over first")
	}
	one.poll("the longer pause", func() bool { return one.drained() == 2 })
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("called after %v", took)
	}
	one.line() // by an event again
	other.line()
	if n := gone.drained(); n > 2 {
		t.Errorf("one that is not watched was called %d times", n)
	}
	one.end()
	other.end()
}

// TestAfterWithoutTimer: where the kernel refuses a timer there are events only.
func TestAfterWithoutTimer(t *testing.T) {
	p, _ := newPoller()
	one := newReader(t, p).begin()
	p.mu.Lock()
	syscalls.Close(p.pollSet.delays.timer)
	p.pollSet.delays.timer = -1
	p.mu.Unlock()
	one.pause = time.Hour
	one.line()
	one.line()
	one.end()
}
