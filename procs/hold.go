package procs

import (
	"fmt"

	"superd/loop"
)

// A hold keeps an instance from being started while processes live that an earlier superd has started, and of which superd can't be certain
// what they are: they are neither killed, nor is there a second of them.
type hold struct {
	round *loop.Scope // of those found by the last look
}

// hold doesn't start the instance while these processes live.
func (in *instance) hold(strays []Stray) {
	m := &in.machine
	in.sup.counts[m.state]--
	m.state = Stopped
	in.sup.counts[m.state]++
	m.cause = fmt.Sprintf("not started: process %s, of which superd knows only that an earlier superd has started it for this program, lives; `superd ctl stop %s` ends it",
		strayText(strays), in.name)
	in.held = &hold{round: in.scope.Child()}
	in.sup.log.Warn("program not started: processes that an earlier superd has started for it live, and it is not known what they are",
		"instance", in.name, "processes", strayText(strays))
	in.publish()
	in.sup.changed()
	in.save()
	in.lookAtHeld()
}

// lookAtHeld starts the instance when nothing is left of what kept it from that.
func (in *instance) lookAtHeld() {
	held := in.held
	held.round.Close()
	held.round = in.scope.Child()
	round, living := held.round, 0
	in.tree.Look(func(found []Member) {
		for _, m := range found {
			if round.Closed() {
				m.Process.Close()
				continue
			}
			living++
			round.Defer(func() { m.Process.Close() })
			var watch *loop.Watch
			watch, err := round.OnReadable(m.Process.FD(), func() {
				watch.Stop() // it stays readable
				if living--; living == 0 {
					in.lookAtHeld()
				}
			})
			if err != nil {
				in.sup.log.Error("process is not watched", "instance", in.name, "pid", m.Process.Pid(), "error", err)
				round.After(unwatchedPause, in.lookAtHeld)
			}
		}
		if living == 0 && !round.Closed() {
			in.release()
			if w := in.machine.wanted; w.up {
				in.do(func() []Effect { return in.machine.wantUp(w.by, false) })
			}
		}
	})
}

// release ends the hold.
func (in *instance) release() {
	in.held.round.Close()
	in.held = nil
	in.machine.cause = "not started yet"
	in.publish()
	in.save()
	in.sup.changed()
}

// endHeld ends the processes that keep the instance from being started, as the operator wishes.
func (in *instance) endHeld() {
	in.release()
	m := &in.machine
	in.run = &run{in: in, program: in.program, invocationID: in.sup.newInvocationID(), telling: &tellsNothing, touched: true}
	in.run.scope.Open(&in.scope)
	in.do(func() []Effect {
		m.wish(false, operator)
		m.state, m.verdict, m.ending, m.cause = Clearing, EndDown, "processes of an earlier run ended", "stopping by "+operator
		return []Effect{Clear}
	})
}
