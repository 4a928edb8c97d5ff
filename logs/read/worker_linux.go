package read

import (
	"slices"
	"time"
)

// MaxWaiting is how many workers wait for output. With two, the one that an event wakes need not
// wake another first.
const MaxWaiting = 2

// ensureWaiting makes sure that another worker waits. At the limit it schedules checkBlocked, which
// finds blocked workers. The caller holds mu.
func (p *Poller) ensureWaiting(set *pollSet) {
	switch {
	case set.waiting > 0 || p.pollSet != set:
	case len(set.working) < p.maxWorking:
		set.waiting++
		set.alive++
		p.group.Go(func() { p.runWorker(set) })
	case !set.checkScheduled:
		set.checkScheduled = true
		set.checks++
		time.AfterFunc(p.blockedAfter, func() { p.checkBlocked(set) })
	}
}

// checkBlocked stops counting the workers that have drained the same FIFOs since it was
// scheduled, and replaces them.
func (p *Poller) checkBlocked(set *pollSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set.checkScheduled = false
	if set.waiting > 0 {
		return
	}
	set.working = slices.DeleteFunc(set.working, func(h *worker) bool { return h.checks != set.checks })
	p.ensureWaiting(set)
}

// ReportBlocked makes another worker wait in place of the one with this wakeup, which is about to
// wait for something other than bytes of the pipe.
func (p *Poller) ReportBlocked(w *Wakeup) {
	if w == nil || w.worker == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.worker.endWork()
	p.ensureWaiting(w.worker.set)
}

// NoneWaits reports whether no worker waits, so others may have output by now.
func (p *Poller) NoneWaits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pollSet != nil && p.pollSet.waiting == 0
}

// runWorker waits for output and drains what has some, until enough other workers
// wait.
func (p *Poller) runWorker(set *pollSet) {
	w := &worker{set: set}
	for wakeup := newWakeup(w); ; wakeup = wakeup.reset() {
		n, generation := set.wait()
		p.mu.Lock()
		p.waitReturns++
		if p.pollSet != set {
			break
		}
		if n == timerIndex && generation == timerGeneration {
			due, ok := set.delays.take()
			if !ok {
				p.mu.Unlock()
				continue
			}
			n, generation = due.index, due.generation
		}
		s := set.entries[n]
		if s.owner == nil || s.generation != generation {
			p.mu.Unlock()
			continue
		}
		set.waiting--
		w.checks = set.checks
		set.working = append(set.working, w)
		p.ensureWaiting(set)
		p.mu.Unlock()
		s.owner.Readable(wakeup)
		// Go's monitor (sysmon) takes the processor from a goroutine in a system call that has not
		// been scheduled for 10 ms. It would then have to be woken for the next line.
		Yield()
		p.mu.Lock()
		w.endWork()
		if p.pollSet != set || set.waiting >= MaxWaiting {
			break
		}
		set.waiting++
		p.mu.Unlock()
	}
	defer p.mu.Unlock()
	if set.alive--; set.alive == 0 && !p.stopped {
		set.close()
	}
}
