package logs

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxWaiting is how many hands wait for output: with two, the one that is told of some need not wake another one first.
const maxWaiting = 2

// handPatience is how long a hand may be busy with the same capture while nobody waits, before another one waits in its place: most likely it
// is held up by a file system that stalls. A drain takes less than a millisecond.
const handPatience = 10 * time.Millisecond

// Hands is how many hands are at work at a time, each of which keeps one of Go's processors while it moves output. More of them than processors would take turns with the programs, and find in each pipe the little
// that has come meanwhile; one more is there for those who are quiet.
func Hands() int { return runtime.NumCPU() + 1 }

// A hand is a goroutine of a poller that waits for output and drains what it is told of. Before it drains, it sees to it that another one waits,
// unless as many work as may. Those that are held up don't count: so it doesn't matter how many these are.
type hand struct {
	set  *pollSet
	told uint64 // looks of the set when it was told of what it drains
}

// replenish sees to it that another hand waits, or that it is found out soon who of those that work is held up. The caller holds mu.
func (p *poller) replenish(set *pollSet) {
	switch {
	case set.waiting > 0 || p.set != set:
	case len(set.working) < p.most:
		set.waiting++
		set.alive++
		p.captures.Go(func() { p.work(set) })
	case !set.looking:
		set.looking = true
		set.looks++
		time.AfterFunc(p.patience, func() { p.look(set) })
	}
}

// look has those be replaced who drain the same capture since it was planned.
func (p *poller) look(set *pollSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set.looking = false
	if set.waiting > 0 {
		return
	}
	set.working = slices.DeleteFunc(set.working, func(h *hand) bool { return h.told != set.looks })
	p.replenish(set)
}

// giveWay has another hand work in place of the one with this bell, which is about to wait for something else than bytes of the pipe.
func (p *poller) giveWay(b *bell) {
	if b == nil || b.hand == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.hand.stop()
	p.replenish(b.hand.set)
}

// short reports whether nobody waits: others may have output by now.
func (p *poller) short() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set != nil && p.set.waiting == 0
}

// work waits, and drains the capture that it is told of, again and again, as long as not enough others wait.
func (p *poller) work(set *pollSet) {
	h := &hand{set: set}
	for b := newBell(h); ; b = b.again() {
		n, generation := set.wait()
		p.mu.Lock()
		p.returns++
		if p.set != set {
			break
		}
		s := set.seats[n]
		if s.capture == nil || s.generation != generation {
			p.mu.Unlock()
			continue
		}
		set.waiting--
		h.told = set.looks
		set.working = append(set.working, h)
		p.replenish(set)
		p.mu.Unlock()
		s.capture.readable(b)
		// Go's monitor takes the processor away from a goroutine in a system call that has not been scheduled for 10 ms, and would have to be woken
		// when the next line comes.
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

// stop has the hand not be one of those that work. The caller holds mu.
func (h *hand) stop() {
	if i := slices.Index(h.set.working, h); i >= 0 {
		h.set.working = slices.Delete(h.set.working, i, i+1)
	}
}

// wait returns the next that the kernel tells of: 0 when all is to end.
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
