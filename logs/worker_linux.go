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

// blockedAfter is how long a worker may drain the same collector while no other waits. After that
// another one waits in its place: most likely a stalled file system blocks the first. A drain takes
// less than a millisecond.
const blockedAfter = 10 * time.Millisecond

// Workers returns how many workers may drain at a time. Each occupies one of Go's processors (P)
// while it moves output. More workers than processors would alternate with the programs and find
// little in each pipe. The extra one serves quiet programs.
func Workers() int { return runtime.NumCPU() + 1 }

// A worker is a goroutine of a poller that waits for output and drains the collector that has some.
// Before it drains, it makes sure that another worker waits, unless the limit of draining ones is
// reached. Blocked workers do not count toward the limit, so any number may be blocked.
type worker struct {
	set    *pollSet
	checks uint64 // pollSet.checks when it began to drain
}

// ensureWaiting makes sure that another worker waits. At the limit it schedules checkBlocked, which
// finds blocked workers. The caller holds mu.
func (p *poller) ensureWaiting(set *pollSet) {
	switch {
	case set.waiting > 0 || p.pollSet != set:
	case len(set.working) < p.maxWorking:
		set.waiting++
		set.alive++
		p.collectors.Go(func() { p.runWorker(set) })
	case !set.checkScheduled:
		set.checkScheduled = true
		set.checks++
		time.AfterFunc(p.blockedAfter, func() { p.checkBlocked(set) })
	}
}

// checkBlocked stops counting the workers that have drained the same collector since it was
// scheduled, and replaces them.
func (p *poller) checkBlocked(set *pollSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set.checkScheduled = false
	if set.waiting > 0 {
		return
	}
	set.working = slices.DeleteFunc(set.working, func(h *worker) bool { return h.checks != set.checks })
	p.ensureWaiting(set)
}

// reportBlocked makes another worker wait in place of the one with this wakeup, which is about to
// wait for something other than bytes of the pipe.
func (p *poller) reportBlocked(w *wakeup) {
	if w == nil || w.worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.worker.endWork()
	p.ensureWaiting(w.worker.set)
}

// noneWaits reports whether no worker waits, so other collectors may have output by now.
func (p *poller) noneWaits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pollSet != nil && p.pollSet.waiting == 0
}

// runWorker waits for output and drains the collector that has some, until enough other workers
// wait.
func (p *poller) runWorker(set *pollSet) {
	w := &worker{set: set}
	for wakeup := newWakeup(w); ; wakeup = wakeup.reset() {
		n, generation := set.wait()
		p.mu.Lock()
		p.waitReturns++
		if p.pollSet != set {
			break
		}
		s := set.entries[n]
		if s.collector == nil || s.generation != generation {
			p.mu.Unlock()
			continue
		}
		set.waiting--
		w.checks = set.checks
		set.working = append(set.working, w)
		p.ensureWaiting(set)
		p.mu.Unlock()
		s.collector.readable(wakeup)
		// Go's monitor (sysmon) takes the processor from a goroutine in a system call that has not
		// been scheduled for 10 ms. It would then have to be woken for the next line.
		yieldProcessor()
		p.mu.Lock()
		w.endWork()
		if p.pollSet != set || set.waiting >= maxWaiting {
			break
		}
		set.waiting++
		p.mu.Unlock()
	}
	defer p.mu.Unlock()
	if set.alive--; set.alive == 0 && !p.stopped {
		closeFD(set.epoll)
		closeFD(set.endFD)
	}
}

// endWork removes the worker from those that count as draining. The caller holds mu.
func (w *worker) endWork() {
	if i := slices.Index(w.set.working, w); i >= 0 {
		w.set.working = slices.Delete(w.set.working, i, i+1)
	}
}

// wait returns the index and generation of the next event; index 0 means that the set ends.
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
