package loop

import "time"

// A Virtual is a loop over a simulated kernel: a clock that moves only when there is nothing else to
// do, and descriptors in memory whose readiness the test sets. One seed gives one history: it decides
// in which order ready descriptors are reported. Timers and posted work keep their order.
//
// It is driven by [Virtual.Step] and [Virtual.RunFor], or by Run. Like the loop itself it belongs to one
// goroutine; Post may come from others, and Run waits for it when nothing else is left.
//
// A turn takes no time. So that time does not stand still for one that is always busy, the clock
// creeps on once a thousand turns have passed at one instant.
type Virtual struct {
	*Loop
	kernel *kernel
}

// NewVirtual returns a virtual loop. Its clocks start at an arbitrary instant, the same for all.
func NewVirtual(seed uint64) *Virtual {
	k := newKernel(seed)
	return &Virtual{newLoop(k), k}
}

// NewFD returns a new descriptor that is not ready: the lowest number from 3 that is not open.
func (v *Virtual) NewFD() int { return v.kernel.open() }

// SetReady makes fd ready for r, and for nothing else, until it is set again. Setting a condition that
// is set already is an edge all the same, as new data in a pipe is.
func (v *Virtual) SetReady(fd int, r Ready) { v.kernel.setReady(fd, r) }

// RefuseWatch has watches of fd fail with syscall.ENOSPC, as at the limit of epoll watches.
func (v *Virtual) RefuseWatch(fd int) { v.kernel.mustFile("refuse watch", fd).refused = true }

// RefuseClockWatch has [Scope.OnClockChange] fail with syscall.EMFILE, or not any more.
func (v *Virtual) RefuseClockWatch(refuse bool) { v.kernel.clockRefused = refuse }

// CloseFD closes fd. Watching ends without a word, as it does in the kernel; what was reported for fd in
// this turn still comes.
func (v *Virtual) CloseFD(fd int) { v.kernel.closeFD(fd) }

// OpenFDs returns how many descriptors are open.
func (v *Virtual) OpenFDs() int { return v.kernel.openFDs }

// Step runs one turn. If nothing is ready, due or posted, it first moves the clock to the timer due
// next. It returns false, and does nothing, if there is none either, or if the loop has stopped.
func (v *Virtual) Step() bool {
	if v.ended() || v.next() == never {
		return false
	}
	v.step()
	return true
}

// RunFor runs turns until d has passed and what is due by then has run. It leaves the clock there.
func (v *Virtual) RunFor(d time.Duration) {
	end := v.kernel.now() + d
	for !v.ended() && v.next() <= end {
		v.step()
	}
	v.kernel.advance(max(end-v.kernel.now(), 0))
}

// Advance moves both clocks by d and runs nothing. In a callback it makes that callback a slow one.
func (v *Virtual) Advance(d time.Duration) { v.kernel.advance(d) }

// StepWall moves the wall clock alone, as someone who sets it would.
func (v *Virtual) StepWall(d time.Duration) { v.kernel.setClock(d, 0) }

// Sleep has the machine sleep for d: the wall clock and Boot go on by d, Now stands still.
func (v *Virtual) Sleep(d time.Duration) { v.kernel.setClock(d, d) }

// next returns when the next turn would be: now if something is ready or posted.
func (v *Virtual) next() time.Duration {
	v.mu.Lock()
	posted := v.posted.first != nil || v.taken.first != nil
	v.mu.Unlock()
	now := v.kernel.now()
	switch {
	case posted || v.kernel.anyReady() || v.kernel.changed:
		return now
	case len(v.timers) > 0:
		return max(v.timers[0].due, now)
	default:
		return never
	}
}

func (v *Virtual) step() {
	// The simulated wait does not fail.
	_ = v.turn()
	if v.stop {
		v.finish()
	}
}

// ended reports whether the loop has stopped. Stop may have been called outside of a turn.
func (v *Virtual) ended() bool {
	if v.stop && !v.closed {
		v.finish()
	}
	return v.closed
}
