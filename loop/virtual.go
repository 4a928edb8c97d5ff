package loop

import "time"

// A Virtual is a loop over a simulated kernel: a clock that advances only when there is nothing
// else to do, and descriptors in memory whose readiness the test sets. A seed determines the
// history: the order in which ready descriptors are reported. Timers and posted work keep their
// order.
//
// It is driven by [Virtual.Step] and [Virtual.RunFor], or by Run. Like the loop it belongs to one
// goroutine; Post may come from others, and Run waits for it when nothing else is left.
//
// A turn takes no time. So that time advances even for an always busy loop, the clock creeps after
// a thousand turns at one instant.
type Virtual struct {
	*Loop
	kernel *kernel
}

// NewVirtual returns a virtual loop. Its clocks start at a fixed instant.
func NewVirtual(seed uint64) *Virtual {
	k := newKernel(seed)
	return &Virtual{newLoop(k), k}
}

// NewFD returns a new descriptor that is not ready: the lowest closed number from 3 on.
func (v *Virtual) NewFD() int { return v.kernel.open() }

// SetReady makes fd ready for r only, until the next call. Setting a condition that is already set
// is an edge all the same, like new data in a pipe.
func (v *Virtual) SetReady(fd int, r Ready) { v.kernel.setReady(fd, r) }

// RefuseWatch makes watches of fd fail with syscall.ENOSPC, as at the limit of epoll watches.
func (v *Virtual) RefuseWatch(fd int) { v.kernel.mustFile("refuse watch", fd).refused = true }

// RefuseClockWatch makes [Scope.OnClockChange] fail with syscall.EMFILE, or work again.
func (v *Virtual) RefuseClockWatch(refuse bool) { v.kernel.clockRefused = refuse }

// CloseFD closes fd. Watches end silently, as in the kernel; events already reported for fd in this
// turn are still delivered.
func (v *Virtual) CloseFD(fd int) { v.kernel.closeFD(fd) }

// OpenFDs returns how many descriptors are open.
func (v *Virtual) OpenFDs() int { return v.kernel.openFDs }

// Step runs one turn. If nothing is ready, due or posted, it first advances the clock to the next
// timer. It returns false, and does nothing, if there is none either, or if the loop has stopped.
func (v *Virtual) Step() bool {
	if v.ended() || len(v.timers) == 0 && v.next() == never {
		return false
	}
	v.step()
	return true
}

// RunFor runs turns until d has passed and all that is due by then has run. The clock stays there.
func (v *Virtual) RunFor(d time.Duration) {
	end := v.kernel.now() + d
	for !v.ended() && v.next() <= end {
		v.step()
	}
	v.kernel.advance(max(end-v.kernel.now(), 0))
}

// Advance advances both clocks by d and runs nothing. In a callback it simulates a slow callback.
func (v *Virtual) Advance(d time.Duration) { v.kernel.advance(d) }

// StepWall moves only the wall clock, as if it was set.
func (v *Virtual) StepWall(d time.Duration) { v.kernel.setClock(d, 0) }

// Sleep simulates a sleep of the machine for d: the wall clock and Boot advance by d, Now does not.
func (v *Virtual) Sleep(d time.Duration) { v.kernel.setClock(d, d) }

// next returns the time of the next turn: now if something is ready or posted.
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

// ended reports whether the loop has stopped. Stop may have been called outside a turn.
func (v *Virtual) ended() bool {
	if v.stop && !v.closed {
		v.finish()
	}
	return v.closed
}
