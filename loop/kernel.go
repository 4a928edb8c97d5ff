package loop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// A kernel simulates the parts of Linux that a poller uses: descriptors, epoll and clocks. Its
// epoll works like the kernel's, with a list of registrations that may be ready. A change of
// readiness adds one to the list; the wait removes it unless it is level-triggered and still ready.
type kernel struct {
	rng          *rand.Rand
	clock        atomic.Int64 // atomic since Post calls now from any goroutine
	wallOffset   time.Duration
	slept        time.Duration
	watched      bool // the clock is watched
	clockRefused bool // the clock can't be watched
	changed      bool // the clock was set, or the machine has slept
	atOnce       int  // turns since the clock advanced
	woken        chan struct{}

	files   []*file // by descriptor number; nil: closed
	lowest  int     // all numbers from firstFD up to it are in use
	openFDs int
	ready   []*interest
}

// A file is an open file with one descriptor.
type file struct {
	ready    Ready
	refused  bool      // can't be watched
	interest *interest // nil: not watched
}

// An interest is a registration with epoll.
type interest struct {
	registration
	fd     int
	file   *file // nil: removed
	listed bool  // in kernel.ready
}

const (
	bootTime = time.Hour // clocks of a running system are not at zero
	firstFD  = 3         // after standard input, output and error

	maxAtOnce = 1000 // turns at one instant before the clock advances by creep
	creep     = 10 * time.Microsecond
)

func newKernel(seed uint64) *kernel {
	k := &kernel{rng: rand.New(rand.NewPCG(seed, 0)), woken: make(chan struct{}, 1)}
	k.files, k.lowest = make([]*file, firstFD), firstFD
	k.clock.Store(int64(bootTime))
	return k
}

func (k *kernel) open() int {
	fd := k.lowest
	for fd < len(k.files) && k.files[fd] != nil {
		fd++
	}
	if fd == len(k.files) {
		k.files = append(k.files, nil)
	}
	k.files[fd] = &file{}
	k.lowest = fd + 1
	k.openFDs++
	return fd
}

func (k *kernel) closeFD(fd int) {
	f := k.mustFile("close", fd)
	k.forget(f)
	k.files[fd] = nil
	k.lowest = min(k.lowest, fd)
	k.openFDs--
}

func (k *kernel) setReady(fd int, r Ready) {
	f := k.mustFile("set ready", fd)
	f.ready = r
	k.list(f.interest)
}

// list adds i to the ready list if it has events.
func (k *kernel) list(i *interest) {
	if i != nil && !i.listed && i.events() != 0 {
		i.listed = true
		k.ready = append(k.ready, i)
	}
}

// events returns the ready conditions among those of interest to i. Hangup is always of interest.
func (i *interest) events() Ready {
	if i.file == nil {
		return 0
	}
	return i.file.ready & (i.interest | Hangup)
}

func (k *kernel) add(fd int, r registration) error {
	f := k.file(fd)
	if f == nil {
		return syscall.EBADF
	}
	if f.interest != nil {
		return syscall.EEXIST
	}
	if f.refused {
		return syscall.ENOSPC
	}
	f.interest = &interest{registration: r, fd: fd, file: f}
	k.list(f.interest)
	return nil
}

func (k *kernel) modify(fd int, r registration) error {
	f := k.file(fd)
	if f == nil {
		return syscall.EBADF
	}
	if f.interest == nil {
		return syscall.ENOENT
	}
	f.interest.registration = r
	k.list(f.interest)
	return nil
}

func (k *kernel) remove(fd int) {
	if f := k.file(fd); f != nil {
		k.forget(f)
	}
}

func (k *kernel) forget(f *file) {
	if f.interest != nil {
		f.interest.file = nil
		f.interest = nil
	}
}

// wait does not block for time to pass: without events it advances the clock to the deadline.
func (k *kernel) wait(deadline time.Duration, events []event) (int, error) {
	n := k.collect(events)
	switch {
	case n > 0 || k.changed || deadline <= k.now():
		if k.atOnce++; k.atOnce > maxAtOnce {
			k.clock.Add(int64(creep))
		}
	case deadline == never:
		<-k.woken
	default:
		k.advance(deadline - k.now())
	}
	return n, nil
}

// collect reports ready conditions as far as they fit, in an order drawn from the seed.
func (k *kernel) collect(events []event) int {
	k.prune()
	k.rng.Shuffle(len(k.ready), func(a, b int) { k.ready[a], k.ready[b] = k.ready[b], k.ready[a] })
	n := min(len(k.ready), len(events))
	for j, i := range k.ready[:n] {
		events[j] = event{i.fd, i.generation, i.events()}
		i.listed = !i.edge
	}
	k.ready = slices.DeleteFunc(k.ready, func(i *interest) bool { return !i.listed })
	return n
}

// prune removes from the ready list what is no longer ready.
func (k *kernel) prune() {
	k.ready = slices.DeleteFunc(k.ready, func(i *interest) bool {
		i.listed = i.events() != 0
		return !i.listed
	})
}

func (k *kernel) anyReady() bool {
	k.prune()
	return len(k.ready) > 0
}

func (k *kernel) now() time.Duration { return time.Duration(k.clock.Load()) }

// bootedAt is the boot time of the simulated machine: 2026-01-01T00:00:00Z.
const bootedAt = 1767225600

func (k *kernel) wall() time.Time {
	return time.Unix(bootedAt, 0).UTC().Add(k.now() + k.wallOffset)
}

func (k *kernel) boot() time.Duration { return k.now() + k.slept }

// setClock advances the wall clock by d, of which the machine slept for slept.
func (k *kernel) setClock(d, slept time.Duration) {
	k.wallOffset += d
	k.slept += slept
	k.changed = k.watched
}

func (k *kernel) watchClock() error {
	if k.clockRefused {
		return syscall.EMFILE
	}
	k.watched = true
	return nil
}

func (k *kernel) clockChanged() bool {
	changed := k.changed
	k.changed = false
	return changed
}

func (k *kernel) advance(d time.Duration) {
	if d > 0 {
		k.clock.Add(int64(d))
		k.atOnce = 0
	}
}

func (k *kernel) wake() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

func (k *kernel) close() {}

// file returns the open file of a descriptor, or nil.
func (k *kernel) file(fd int) *file {
	if fd < 0 || fd >= len(k.files) {
		return nil
	}
	return k.files[fd]
}

// mustFile is file for calls that fail only by a mistake in the code under test; it panics then.
func (k *kernel) mustFile(call string, fd int) *file {
	f := k.file(fd)
	if f == nil {
		panic(fmt.Sprintf("loop: %s descriptor %d: %v", call, fd, syscall.EBADF))
	}
	return f
}
