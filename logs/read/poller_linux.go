// Package read waits for output: it finds the FIFOs that have some, and calls on a worker goroutine
// whoever drains them.
//
// A [Poller] owns an epoll and the workers that wait in it. A [Watch] is the part of one drainer;
// its owner has a lock for it. A worker that waits for something other than bytes reports that, and
// another one waits in its place: so any number of drainers may be blocked.
package read

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A Drainer takes the output out of its FIFOs.
type Drainer interface {
	// Readable is called on a worker when one of the FIFOs has output, and not again before
	// [Watch.Arm]. w wakes the worker if it waits.
	Readable(w *Wakeup)
}

// A Wakeup wakes a draining goroutine that waits.
type Wakeup struct {
	Stop   chan struct{} // closed when the goroutine must end
	Wake   chan struct{} // holds one token: output has come
	worker *worker       // the worker that drains; nil: a goroutine for one drain
}

// NewWakeup returns a wakeup of a goroutine that is no worker.
func NewWakeup() *Wakeup { return newWakeup(nil) }

func newWakeup(w *worker) *Wakeup { return &Wakeup{make(chan struct{}), make(chan struct{}, 1), w} }

// reset returns a wakeup without a pending token: w itself unless it is stopped.
func (w *Wakeup) reset() *Wakeup {
	select {
	case <-w.Stop:
		return newWakeup(w.worker)
	default:
	}
	select {
	case <-w.Wake:
	default:
	}
	return w
}

// Signal wakes the goroutine, now or as soon as it waits.
func (w *Wakeup) Signal() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// A Poller waits for output. All FIFOs are in one epoll(7), in which its workers wait. The worker
// that gets the event of a FIFO drains it, so a line is in its file after one wake-up of one
// thread.
type Poller struct {
	group        *sync.WaitGroup // counts the workers
	maxWorking   int             // how many workers may drain at a time, blocked ones not counted
	blockedAfter time.Duration   // after which a worker counts as blocked

	mu          sync.Mutex
	pollSet     *pollSet // nil: nothing is watched
	stopped     bool     // nothing is watched any more: see Stop
	waitReturns uint64   // counts returns of epoll_wait
}

// blockedAfter is how long a worker may drain the same FIFOs while no other waits. After that
// another one waits in its place: most likely a stalled file system blocks the first. A drain takes
// less than a millisecond.
const blockedAfter = 10 * time.Millisecond

// Workers returns how many workers may drain at a time. Each occupies one of Go's processors (P)
// while it moves output. More workers than processors would alternate with the programs and find
// little in each pipe. The extra one serves quiet programs.
func Workers() int { return runtime.NumCPU() + 1 }

// Init prepares p, which is zero. It counts its workers in group.
func (p *Poller) Init(group *sync.WaitGroup) {
	p.group = group
	p.SetLimits(Workers(), blockedAfter)
}

// SetLimits sets how many workers may drain at a time, and after which time one counts as blocked.
// It has to be called before there are watches.
func (p *Poller) SetLimits(maxWorking int, blockedAfter time.Duration) {
	p.maxWorking, p.blockedAfter = maxWorking, blockedAfter
}

// A State is what a poller does at an instant.
type State struct {
	Watches int    // how many drainers are watched
	Alive   int    // workers that have not ended
	Waiting int    // workers that wait
	Working int    // workers that drain, without those known to be blocked
	Returns uint64 // waits that have returned
}

// State returns what the poller does now.
func (p *Poller) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Returns: p.waitReturns}
	if set := p.pollSet; set != nil {
		s.Watches = len(set.entries) - 1 - len(set.free)
		s.Alive, s.Waiting, s.Working = set.alive, set.waiting, len(set.working)
	}
	return s
}

// Pause keeps workers from draining what becomes readable, until resume is called.
func (p *Poller) Pause() (resume func()) {
	p.mu.Lock()
	return p.mu.Unlock
}

// A pollSet is an epoll. It exists from the first FIFO that is watched to the last. The poller's mu
// guards what changes.
type pollSet struct {
	epoll          int
	endFD          int // an eventfd, readable when the set ends
	delays         delays
	entries        []watchEntry // by the number in an event; 0 is that of endFD
	free           []int32
	waiting        int       // workers that wait, or are about to
	alive          int       // workers that have not ended
	working        []*worker // workers that drain, without those known to be blocked
	checkScheduled bool      // a call of checkBlocked is scheduled
	checks         uint64    // counts the calls of checkBlocked that were scheduled
}

// A watchEntry connects the number in an event with a drainer. As events may be late, the
// generation distinguishes the drainers that have used the same entry.
type watchEntry struct {
	owner      Drainer // nil: unused
	generation int32
}

func newPollSet() (*pollSet, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	endFD, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		syscalls.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, endFD, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		syscalls.Close(epoll)
		syscalls.Close(endFD)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	set := &pollSet{epoll: epoll, endFD: endFD, entries: make([]watchEntry, 1)}
	set.delays.init(epoll)
	return set, nil
}

// close closes the descriptors.
func (set *pollSet) close() {
	syscalls.Close(set.epoll)
	syscalls.Close(set.endFD)
	if set.delays.timer >= 0 {
		syscalls.Close(set.delays.timer)
	}
}

// end ends all waiting workers. The write can't fail: the counter is nowhere near its limit.
func (set *pollSet) end() {
	one := [8]byte{1}
	_, _ = unix.Write(set.endFD, one[:])
}

// wait returns the index and generation of the next event; index 0 means that the set ends or, with
// timerGeneration, that a delay is over.
func (set *pollSet) wait() (index, generation int32) {
	var events [1]unix.EpollEvent
	for {
		n, err := unix.EpollWait(set.epoll, events[:], -1)
		switch {
		case n == 1:
			return events[0].Fd, events[0].Pad
		case err != unix.EINTR:
			panic(fmt.Sprintf("wait for output: %v", err))
		}
	}
}

// A worker is a goroutine of a poller that waits for output and drains what has some.
// Before it drains, it makes sure that another worker waits, unless the limit of draining ones is
// reached. Blocked workers do not count toward the limit, so any number may be blocked.
type worker struct {
	set    *pollSet
	checks uint64 // pollSet.checks when it began to drain
}

// endWork removes the worker from those that count as draining. The caller holds mu.
func (w *worker) endWork() {
	if i := slices.Index(w.set.working, w); i >= 0 {
		w.set.working = slices.Delete(w.set.working, i, i+1)
	}
}

// Stop ends all watches at once, and the workers. The epoll stays open, as drainers still have
// its number.
func (p *Poller) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if set := p.pollSet; set != nil {
		p.pollSet = nil
		set.end()
	}
}

func (p *Poller) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}
