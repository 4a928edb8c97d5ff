package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/mounts"
	"superd/loop"
)

// waits returns how many waits of the poller have returned.
func (p *poller) waits() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waitReturns
}

// at returns the poll set, and how many of its goroutines exist and wait.
func (p *poller) at() (set *pollSet, alive, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pollSet == nil {
		return nil, 0, 0
	}
	return p.pollSet, p.pollSet.alive, p.pollSet.waiting
}

// TestPollerEndsWithTheLastCollector: the last collector ends the epoll and its goroutines; the
// next collector starts new ones.
func TestPollerEndsWithTheLastCollector(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	var before *pollSet
	for range 20 {
		one, other := r.program(Options{Path: filepath.Join(dir, "one.log")}), r.program(Options{Path: filepath.Join(dir, "other.log")})
		one.log("a line\n")
		r.do(one.scope.Close)
		other.log("a line\n")
		set, alive, _ := r.store.poller.at()
		if set == nil || set == before || alive == 0 {
			t.Fatalf("the epoll is %p, before %p, %d goroutines of it, want a new one and some", set, before, alive)
		}
		before = set
		r.do(other.scope.Close)
		r.waitForStore() // for the goroutines, too
		if set, _, _ := r.store.poller.at(); set != nil || before.alive != 0 {
			t.Fatalf("nothing is watched, and there is an epoll (%p), or %d goroutines are left", set, before.alive)
		}
		for _, fd := range []int{before.epoll, before.endFD} {
			if _, err := unix.EpollWait(fd, make([]unix.EpollEvent, 1), 0); err == nil {
				t.Errorf("descriptor %d is an epoll after the last collector", fd)
			}
		}
	}
}

// TestLateEventOfReusedIndex: an event for a removed collector is ignored, even if another has its
// index now.
func TestLateEventOfReusedIndex(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	stay := r.program(Options{Path: filepath.Join(dir, "stay.log")})
	removed := r.program(Options{Path: filepath.Join(dir, "gone.log")})
	var late watch
	r.poll("the watch", func() bool { // it begins when the loop runs
		removed.mu.Lock()
		defer removed.mu.Unlock()
		late = removed.watch
		return late.index > 0
	})
	fd := removed.Collector.FD(Stdout)
	stored, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // as the keeper stores it
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(stored)
	r.do(removed.scope.Close)
	next := r.undrained()
	r.do(func() {
		next.state.Store(idle)
		next.mu.Lock()
		defer next.mu.Unlock()
		if err := r.store.poller.register(next.Collector); err != nil {
			t.Error(err)
		}
	})
	if next.index != late.index || next.generation == late.generation {
		t.Fatalf("index %d, generation %d, want the index %d of the one before and another generation than %d", next.index, next.generation, late.index, late.generation)
	}
	// An event for the old collector comes after its removal.
	if err := control(late.epoll, unix.EPOLL_CTL_ADD, stored, late.index, late.generation); err != nil {
		t.Fatal(err)
	}
	next.print("a line\n")
	before := r.store.poller.waits()
	removed.print("too late\n")
	r.poll("the late event", func() bool {
		_, alive, waiting := r.store.poller.at()
		return r.store.poller.waits() > before && alive == waiting
	})
	if n := next.unwritten(); n != int64(len("a line\n")) {
		t.Errorf("%d bytes are in the FIFO after the event of another one, want all", n)
	}
	if n := pipeBytes(stored); n != int64(len("too late\n")) {
		t.Errorf("%d bytes are left in the FIFO of the one that is gone", n)
	}
	stay.log("a line\n")
	r.do(func() {
		r.store.poller.unwatch(next.Collector)
		next.startWatch()
	})
	r.await(next.drained(), "a line")
	r.poll("rest", func() bool { return next.state.CompareAndSwap(idle, draining) })
}

// TestOneWorkerAlwaysWaits: whatever number of workers is blocked, a further one waits for events.
// Afterwards there are no more than needed.
func TestOneWorkerAlwaysWaits(t *testing.T) {
	const many = 30
	r := newRig(t)
	r.store.slots = newSlots(new(mounts.Table), 2*many, 2*many)
	dir := t.TempDir()
	block := make(chan struct{})
	var blocked []*program
	for i := range many {
		p := r.program(Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i))})
		arrived := make(chan struct{}, 1)
		defer p.Notify(func() {
			signal(arrived)
			<-block
		})()
		p.print("a line\n")
		r.await(arrived, "a line of one more that is blocked")
		blocked = append(blocked, p)
	}
	free := r.program(Options{Path: filepath.Join(dir, "free.log")})
	free.log("a line\n")
	close(block)
	for _, p := range blocked {
		r.await(p.drained(), "the end of what holds up")
		equal(t, p.Path(), readFile(t, p.Path()), "a line\n")
	}
	r.poll("the others to end", func() bool {
		_, alive, waiting := r.store.poller.at()
		return alive == maxWaiting && waiting == maxWaiting
	})
}

// TestWatchesComeAndGo: a collector may be made and closed at any time, with output in its FIFO.
func TestWatchesComeAndGo(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	stay := r.program(Options{Path: filepath.Join(dir, "stay.log")})
	for i := range 200 {
		p := r.program(Options{Path: filepath.Join(dir, "web.log"), Split: i%2 == 0})
		if i%2 == 0 {
			read, write := r.fifo()
			r.do(func() {
				if err := p.Attach(Stderr, read); err != nil {
					t.Error(err)
				}
			})
			if _, err := write.WriteString("a line\n"); err != nil {
				t.Fatal(err)
			}
			write.Close()
		}
		p.print("a line\n")
		stay.print("a line\n")
		r.do(p.scope.Close)
		p.File.Close()
	}
	r.await(stay.drained(), "the lines of the one that stays")
	if got := len(readFile(t, stay.Path())); got != 200*len("a line\n") {
		t.Errorf("%d bytes of the one that stays, want those of 200 lines", got)
	}
	r.poll("the entries of the others", func() bool {
		r.store.poller.mu.Lock()
		defer r.store.poller.mu.Unlock()
		return len(r.store.poller.pollSet.entries)-1-len(r.store.poller.pollSet.free) == 1
	})
}

// TestWatchFails: if no watch can be made, output waits until one can.
func TestWatchFails(t *testing.T) {
	r := newRig(t)
	p := &program{rig: r}
	read, write := r.fifo()
	defer write.Close()
	path := filepath.Join(t.TempDir(), "web.log")
	dup, err := unix.FcntlInt(uintptr(read), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var scope *loop.Scope
	r.do(func() {
		scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(scope, "web", Options{Path: path})
		s := p.Collector.streams[0]
		file, err := os.Open(os.DevNull) // epoll accepts no such file: EPERM
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		s.fd.Store(int32(file.Fd()))
		if err := r.store.poller.watch(p.Collector); err == nil {
			t.Error("what can't be watched is watched")
		}
		if set, _, _ := r.store.poller.at(); set != nil {
			t.Error("an epoll is left for nothing")
		}
		s.fd.Store(-1)
		if err := p.Attach(Stdout, dup); err != nil {
			t.Error(err)
		}
	})
	if _, err := write.WriteString("a line\n"); err != nil {
		t.Fatal(err)
	}
	r.await(p.drained(), "a line")
	equal(t, "log", readFile(t, path), "a line\n")
	closeFD(read)
	r.do(scope.Close)
}

// TestTwoStreamsWithoutDescriptors: without free descriptors, two streams are watched nevertheless,
// and their order is known when there are some.
func TestTwoStreamsWithoutDescriptors(t *testing.T) {
	r := newRig(t)
	r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")}) // so that there is an epoll
	path := filepath.Join(t.TempDir(), "web.log")
	var writers [streams]*os.File
	var c *Collector
	var fds [streams]int
	for i := range fds {
		fds[i], writers[i] = r.fifo()
	}
	r.do(func() {
		c = r.store.NewCollector(r.loop.Root().Child(), "web", Options{Path: path, Split: true})
		for i, s := range c.streams {
			s.fd.Store(int32(fds[i]))
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
			t.Error(err)
		}
		err := r.store.poller.watch(c)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("add() = %v", err)
		}
	})
	want := ""
	logBoth := func() {
		for _, w := range writers {
			if _, err := w.WriteString("a line\n"); err != nil {
				t.Fatal(err)
			}
			want += "a line\n"
			r.poll("the line", func() bool {
				data, _ := os.ReadFile(path)
				return string(data) == want
			})
		}
	}
	logBoth()
	logBoth()
	r.do(func() {
		if err := r.store.poller.watch(c); err != nil || c.inner == 0 {
			t.Errorf("add() = %v, both %d", err, c.inner)
		}
	})
	logBoth()
	logBoth()
}
