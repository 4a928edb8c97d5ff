package logs

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxWaiting is how many workers wait for output. With two, the one that an event wakes need not
// wake another first.
const maxWaiting = 2

// workerPatience is how long a worker may drain the same collector while no other waits. After that
// another one waits in its place: most likely a stalled file system blocks the first. A drain takes
// less than a millisecond.
const workerPatience = 10 * time.Millisecond

// Workers returns how many workers may drain at a time. Each occupies one of Go's processors (P)
// while it moves output. More workers than processors would alternate with the programs and find
// little in each pipe. The extra one serves quiet programs.
func Workers() int { return runtime.NumCPU() + 1 }

// A worker is a goroutine of a poller that waits for output and drains the collector that has some.
// Before it drains, it makes sure that another worker waits, unless the limit of working ones is
// reached. Blocked workers do not count toward the limit, so any number may be blocked.
type worker struct {
	set  *pollSet
	told uint64 // value of set.looks when it began to drain
}

// replenish makes sure that another worker waits. At the limit it schedules look, which finds
// blocked workers. The caller holds mu.
func (p *poller) replenish(set *pollSet) {
	switch {
	case set.waiting > 0 || p.set != set:
	case len(set.working) < p.most:
		set.waiting++
		set.alive++
		p.collectors.Go(func() { p.work(set) })
	case !set.looking:
		set.looking = true
		set.looks++
		time.AfterFunc(p.patience, func() { p.look(set) })
	}
}

// look stops counting the workers that still drain the collector they drained when look was
// scheduled, and replaces them.
func (p *poller) look(set *pollSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set.looking = false
	if set.waiting > 0 {
		return
	}
	set.working = slices.DeleteFunc(set.working, func(h *worker) bool { return h.told != set.looks })
	p.replenish(set)
}

// giveWay makes another worker wait in place of the one with this wakeup, which is about to wait
// for something other than bytes of the pipe.
func (p *poller) giveWay(b *wakeup) {
	if b == nil || b.worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.worker.stop()
	p.replenish(b.worker.set)
}

// short reports whether no worker waits, so other collectors may have output by now.
func (p *poller) short() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set != nil && p.set.waiting == 0
}

// work waits for output and drains the collector that has some, until enough other workers wait.
func (p *poller) work(set *pollSet) {
	h := &worker{set: set}
	for b := newWakeup(h); ; b = b.again() {
		n, generation := set.wait()
		p.mu.Lock()
		p.returns++
		if p.set != set {
			break
		}
		s := set.seats[n]
		if s.collector == nil || s.generation != generation {
			p.mu.Unlock()
			continue
		}
		set.waiting--
		h.told = set.looks
		set.working = append(set.working, h)
		p.replenish(set)
		p.mu.Unlock()
		s.collector.readable(b)
		// Go's monitor (sysmon) retakes the processor of a goroutine in a system call that has not
		// been scheduled for 10 ms. It would then have to be woken for the next line.
		giveUpProcessor()
		p.mu.Lock()
		h.stop()
		if p.set != set || set.waiting >= maxWaiting {
			break
		}
		set.waiting++
		p.mu.Unlock()
	}
	defer p.mu.Unlock()
	if set.alive--; set.alive == 0 && !p.over {
		closeFD(set.epoll)
		closeFD(set.over)
	}
}

// stop removes the worker from those that count as working. The caller holds mu.
func (h *worker) stop() {
	if i := slices.Index(h.set.working, h); i >= 0 {
		h.set.working = slices.Delete(h.set.working, i, i+1)
	}
}

// wait returns the seat and generation of the next event; seat 0 means that the set ends.
func (set *pollSet) wait() (seat, generation int32) {
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
