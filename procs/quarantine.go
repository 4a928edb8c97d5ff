package procs

import (
	"fmt"

	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
)

// A quarantine prevents the start of an instance while leftover processes of a predecessor live
// that can't be identified with certainty. superd neither kills them nor starts another copy of the
// program.
type quarantine struct {
	round *loop.Scope // of the processes that the last scan found
}

// setQuarantine prevents the start of the instance while these processes live.
func (in *instance) setQuarantine(leftovers []host.Leftover) {
	processes := host.LeftoverText(leftovers)
	in.machine.Quarantine(fsm.ReasonQuarantined.With(fmt.Sprintf("%s is alive; a predecessor started it "+
		"for this program, but superd can't identify its run; `superd ctl stop %s` ends it", processes, in.name)))
	in.sup.registry.setState(in)
	in.quarantine = &quarantine{round: in.scope.Child()}
	in.sup.log.Warn("program not started: unidentified processes of a predecessor are alive",
		"instance", in.name, "processes", processes)
	in.publish()
	in.sup.subscriptions.changed()
	in.save()
	in.checkQuarantine()
}

// checkQuarantine starts the instance when none of these processes is left.
func (in *instance) checkQuarantine() {
	q := in.quarantine
	q.round.Close()
	q.round = in.scope.Child()
	round, living := q.round, 0
	in.tree.Look(func(found []host.Member) {
		for _, m := range found {
			if round.Closed() {
				m.Process.Close()
				continue
			}
			living++
			round.Defer(func() { m.Process.Close() })
			var watch *loop.Watch
			watch, err := round.OnReadable(m.Process.FD(), func() {
				watch.Stop() // the pidfd stays readable
				if living--; living == 0 {
					in.checkQuarantine()
				}
			})
			if err != nil {
				in.sup.reaper.logUnwatched(m.Process.Pid(), err)
				round.After(unwatchedPause, in.checkQuarantine)
			}
		}
		if living == 0 && !round.Closed() {
			in.liftQuarantine()
			if desired := in.machine.Desired(); desired.Up {
				in.apply(in.machine.WantUp(desired.By, false, in.conditions()))
			}
		}
	})
}

// liftQuarantine ends the quarantine.
func (in *instance) liftQuarantine() {
	in.quarantine.round.Close()
	in.quarantine = nil
	in.machine.QuarantineLifted()
	in.publish()
	in.save()
	in.sup.subscriptions.changed()
}

// killQuarantined kills the leftover processes, at the operator's request.
func (in *instance) killQuarantined() {
	in.liftQuarantine()
	in.run = &run{in: in, program: in.program, invocationID: in.sup.newInvocationID(), notifyState: &noNotifyState, hadProcess: true}
	in.run.scope.Open(&in.scope)
	in.apply(in.machine.EndQuarantine())
}
