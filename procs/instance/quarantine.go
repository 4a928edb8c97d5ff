package instance

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
	in    *Instance
	round *loop.Scope // of the processes that the last scan found
}

// beginQuarantine prevents the start of the instance while these processes live.
func beginQuarantine(in *Instance, leftovers []host.Leftover) {
	processes := host.LeftoverText(leftovers)
	in.Machine.Quarantine(fsm.ReasonQuarantined.With(fmt.Sprintf("%s is alive; a predecessor started it "+
		"for this program, but superd can't identify its run; `superd ctl stop %s` ends it", processes, in.Name)))
	in.Env.Owner.Counted(in)
	in.ownProblems().Quarantine = &quarantine{in: in, round: in.Scope.Child()}
	in.Env.Log.Warn("program not started: unidentified processes of a predecessor are alive",
		"instance", in.Name, "processes", processes)
	in.Node.Publish()
	in.Env.Owner.Changed()
	in.Save()
	in.Quarantine.check()
}

// check starts the instance when none of these processes is left.
func (q *quarantine) check() {
	in := q.in
	q.round.Close()
	q.round = in.Scope.Child()
	round, living := q.round, 0
	in.Tree.Look(func(found []host.Member) {
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
					q.check()
				}
			})
			if err != nil {
				in.Env.Reaper.LogUnwatched(m.Process.Pid(), err)
				round.After(host.UnwatchedPause, q.check)
			}
		}
		if living == 0 && !round.Closed() {
			q.Lift()
			if desired := in.Machine.Desired(); desired.Up {
				in.Apply(in.Machine.WantUp(desired.By, false, in.Conditions()))
			}
		}
	})
}

// Lift ends the quarantine.
func (q *quarantine) Lift() {
	in := q.in
	q.round.Close()
	in.Quarantine = nil
	in.Machine.QuarantineLifted()
	in.Node.Publish()
	in.Save()
	in.Env.Owner.Changed()
}

// Kill kills the leftover processes, at the operator's request.
func (q *quarantine) Kill() {
	in := q.in
	q.Lift()
	in.run = newRun(in, in.Program, in.Env.NewInvocationID())
	in.run.hadProcess = true
	in.Apply(in.Machine.EndQuarantine())
}

// QuarantineWithScan quarantines the instance for processes that may live outside its own tree.
func (in *Instance) QuarantineWithScan(leftovers []host.Leftover) {
	if len(leftovers) > 0 && in.Tree.Empty() {
		in.renewTree(host.ScanPath)
	}
	beginQuarantine(in, leftovers)
}
