package procs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"superd/config"
	"superd/loop/task"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/instance/beside"
	"superd/procs/reconcile"
	"superd/procs/snapshot"
)

// RestartRolling restarts the instances that names select by a roll of each program, one program
// after the other: see package rolling. After the first failure it rolls no further program. With
// canary extra replicas, each roll waits for [Supervisor.DecideRoll] when these are up.
//
// done runs at the end, on the loop, after RestartRolling has returned, or when a roll waits. It
// does not run after cancel. A roll that has begun continues in either case, and under a successor.
func (s *Supervisor) RestartRolling(names []string, canary int, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	var turns [][]string // instances of each program
	stops, program := map[string]uint32{}, ""
	for _, in := range found.Instances {
		if !in.Membership.Stays() {
			continue
		}
		if in.Program.Name != program {
			program, turns = in.Program.Name, append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], in.Name)
		stops[in.Name] = in.Marks.Stops
	}
	outcomes, canceled := noInstanceResults(s.selector, found), false
	task.Go(s.Scope, func(t *task.Task) error {
		failed := ""
		for _, instances := range turns {
			results := s.rolls.refused(instances, "the rolling restart of "+failed+" failed")
			if failed == "" {
				var err error
				if results, err = s.rolls.request(t, instances, stops, canary); err != nil {
					return err
				}
			}
			for _, o := range results {
				if !o.OK && failed == "" {
					failed = config.ProgramOf(o.Name)
				}
			}
			outcomes = append(outcomes, results...)
		}
		if !canceled {
			done(outcomes)
		}
		return nil
	})
	return func() { canceled = true }, nil
}

// refused returns results for instances that are not restarted.
func (r *rolls) refused(instances []string, why string) (all []CommandResult) {
	for _, name := range instances {
		result := CommandResult{Name: name, Message: "not restarted: " + why}
		if in := r.registry.named(name); in != nil {
			result.State = in.Machine.State()
		}
		all = append(all, result)
	}
	return all
}

// request rolls the instances of one program, and returns when that is decided. stops has how often
// each was stopped before the request: one that is stopped since is not restarted. The error is
// that of a cancelled task.
func (r *rolls) request(t *task.Task, instances []string, stops map[string]uint32, canary int) ([]CommandResult, error) {
	name := config.ProgramOf(instances[0])
	if why := r.refusal(name, canary); why != "" {
		return r.refused(instances, why), nil
	}
	var check task.Future[[]CommandResult]
	r.check(instances, func(failed []CommandResult) { check.Resolve(failed) })
	refused, err := check.Await(t)
	if err != nil {
		return nil, err
	}
	why := r.refusal(name, canary) // something else may have begun meanwhile
	switch {
	case len(refused) > 0:
		rest := slices.DeleteFunc(slices.Clone(instances), func(name string) bool { return name == refused[0].Name })
		return append(refused, r.refused(rest, "the check of "+refused[0].Name+" failed")...), nil
	case why != "":
		return r.refused(instances, why), nil
	}
	stopped := func(name string) bool {
		in := r.registry.named(name)
		return in == nil || !in.Membership.Stays() || in.Marks.Stops != stops[name]
	}
	left := slices.DeleteFunc(slices.Clone(instances), stopped)
	rest := r.refused(slices.DeleteFunc(slices.Clone(instances), func(name string) bool { return !stopped(name) }), "it was stopped meanwhile")
	if len(left) == 0 {
		return rest, nil
	}
	instances = left
	var result task.Future[[]CommandResult]
	r.restart(r.config.active.Program(name), instances, canary, func(all []CommandResult) { result.Resolve(all) })
	results, err := result.Await(t)
	return append(rest, results...), err
}

// refusal returns why the program can't be rolled at present; empty if it can.
func (r *rolls) refusal(name string, canary int) string {
	program := r.config.active.Program(name)
	switch {
	case program == nil:
		return "it was removed"
	case r.shutdown.begun:
		return "superd is shutting down"
	case r.all[name] != nil:
		return r.text(name)
	case program.Accepts():
		return "it has a process for each connection: the next ones get the new one"
	case program.Type == config.TypeOneshot && canary > 0:
		return "it is a one-shot: a canary would run it once more"
	}
	for _, in := range r.registry.of(name) {
		if run := in.RunDefinition(); run != nil && config.ExcludedSocket(run, program) != "" {
			return fmt.Sprintf("%s: `superd ctl restart %s` restarts all at once", config.ExcludedSocket(run, program), name)
		}
	}
	n, _ := r.replicas.count(program)
	if extra := extrasOf(program, canary); extra > 0 {
		return r.replicas.refusal(program, n+extra)
	}
	return ""
}

// extrasOf returns how many extra replicas a roll of the program has.
func extrasOf(program *config.Program, canary int) int {
	if canary > 0 {
		return canary
	}
	return program.RollingOrDefault().Surge
}

// check runs the checks of the instances' configurations, as before other restarts. done gets the
// result of the first that fails, if any.
func (r *rolls) check(instances []string, done func(failed []CommandResult)) {
	remaining := 1
	var failed []CommandResult
	ended := func() {
		if remaining--; remaining == 0 {
			done(failed)
		}
	}
	for _, name := range instances {
		in := r.registry.named(name)
		if in == nil || in.Quarantined() || !in.Membership.Stays() {
			continue
		}
		remaining++
		instance.CheckConfiguration(in, func(o beside.Outcome) {
			if !o.OK && failed == nil {
				failed = []CommandResult{{Name: name, State: in.Machine.State(), Message: "not restarted: " + o.Message, Output: o.Output}}
			}
			ended()
		})
	}
	ended()
}

// restart begins the roll of a program that the operator has requested. Replicas that are stopped
// are started at once: the roll waits for them, too.
func (r *rolls) restart(program *config.Program, instances []string, canary int, done func([]CommandResult)) {
	by := fsm.By(fsm.ActorOperator)
	r.recorder.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command, Program: program.Name}),
		fsm.Reason{Kind: fsm.ReasonRequestedRoll}))
	runs := map[string]string{}
	for _, name := range instances {
		runs[name] = instance.RunID(r.registry.named(name))
	}
	o := r.begin(program, by, runs, extrasOf(program, canary), canary > 0)
	o.waiting = append(o.waiting, rollWaiter{done: done})
	for _, name := range instances {
		if in := r.registry.named(name); !in.Machine.Desired().Up {
			if f := r.options.tests.onCommand; f != nil {
				f(in, OpRestart)
			}
			r.reconciler.Perform(in, OpRestart)
		}
	}
}

// Await waits until the programs of s that names select are as a change of the configuration wants
// them. A name that selects nothing is that of a program that was removed.
//
// done runs on the loop, after Await has returned, when no rolling restart of the programs is under
// way, or it waits for the operator, and each instance is up, down as it should be, or has failed.
// It does not run after cancel.
func Await(s *Supervisor, names []string, done func([]CommandResult)) (cancel func(), err error) {
	found := s.selector.Match(names)
	all, canceled, remaining := []CommandResult{}, false, 1
	finish := func(results []CommandResult) {
		all = append(all, results...)
		if remaining--; remaining == 0 && !canceled {
			slices.SortStableFunc(all, func(a, b CommandResult) int { return strings.Compare(a.Name, b.Name) })
			done(all)
		}
	}
	for _, name := range found.Unknown {
		all = append(all, CommandResult{Name: name, OK: true, State: fsm.Stopped, Message: "removed"})
	}
	var rolled map[string]snapshot.Turn
	program := ""
	for _, in := range slices.Clone(found.Instances) {
		if in.Program.Name != program {
			program, rolled = in.Program.Name, nil
			if o := s.rolls.all[program]; o != nil {
				rolled = o.Turns
				remaining++
				s.rolls.await(program, o, finish)
			}
		}
		if _, turn := rolled[in.Name]; turn || s.rolls.isExtra(in) {
			continue
		}
		remaining++
		s.rolls.awaitState(in, &all, func(result CommandResult) {
			result.Name = in.Name
			finish([]CommandResult{result})
		})
	}
	s.Scope.Post(func() { finish(nil) })
	return func() {
		canceled = true
		s.waiters.Drop(&all)
	}, nil
}

// awaitState calls done when the instance has its desired state, or cannot reach it. of identifies
// the command.
func (r *rolls) awaitState(in *instance.Instance, of *[]CommandResult, done func(CommandResult)) {
	op, former := OpStart, r.formerText(in)
	switch {
	case former != "" || in.AwaitsTrigger():
		done(CommandResult{OK: former == "", State: in.Machine.State(), Message: cmp.Or(former, in.Reason())})
		return
	case !in.Membership.Stays() || !r.replicas.desired(in).Up:
		op = OpStop
	}
	r.replicas.waiters.Add(in, &reconcile.Waiter{Op: op, Of: of, Dependent: true, Done: func(o CommandResult) {
		o.Message = cmp.Or(o.Message, o.State.String())
		done(o)
	}})
}

// await calls done with the results of a roll when it is over or waits for the operator.
func (r *rolls) await(program string, o *roll, done func([]CommandResult)) {
	if o.Decided() {
		done(r.results(program, o, o.Failure))
		return
	}
	o.waiting = append(o.waiting, rollWaiter{done: done})
}

// A RollDecision is what an operator decides about a roll.
type RollDecision uint8

// The decisions about a roll.
const (
	ContinueRoll RollDecision = iota // restart the replicas that are left
	UndoRoll                         // restart no further replica, and remove the extra ones
)

// DecideRoll continues or ends the rolls of the programs that names select. done runs as for
// [Supervisor.RestartRolling].
func (s *Supervisor) DecideRoll(names []string, d RollDecision, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.Select(names)
	if err != nil {
		return nil, err
	}
	var programs []string
	for _, in := range found.Instances {
		programs = append(programs, in.Program.Name)
	}
	programs = slices.Compact(append(programs, found.Empty...))
	outcomes, canceled, remaining := []CommandResult{}, false, len(programs)+1
	finish := func(all []CommandResult) {
		outcomes = append(outcomes, all...)
		if remaining--; remaining == 0 && !canceled {
			done(outcomes)
		}
	}
	s.Scope.Post(func() { finish(nil) })
	for _, name := range programs {
		if refusal := s.rolls.decide(name, d, finish); refusal != "" {
			s.Scope.Post(func() { finish([]CommandResult{{Name: name, State: fsm.Stopped, Message: refusal}}) })
		}
	}
	return func() { canceled = true }, nil
}

// decide carries out a decision about the roll of a program. done gets the result, unless decide
// returns why it is not possible.
func (r *rolls) decide(name string, d RollDecision, done func([]CommandResult)) (refusal string) {
	o, program := r.all[name], r.config.active.Program(name)
	switch {
	case o == nil || program == nil:
		return "no rolling restart is under way"
	case r.shutdown.begun:
		return "superd is shutting down"
	case o.Stage == snapshot.RollEnds:
		return "it is over: " + r.text(name)
	case d == UndoRoll:
		o.Fail("undone by the operator")
	case !o.Continue(r.look(program), program.RollingOrDefault().Surge):
		return "it does not wait: " + r.text(name)
	}
	o.waits = nil // it has the whole time again
	requested := [...]fsm.ReasonKind{ContinueRoll: fsm.ReasonRequestedContinue, UndoRoll: fsm.ReasonRequestedUndo}
	r.recorder.Record(eventlog.WithReason(byOperator(eventlog.Event{Kind: eventlog.Command, Program: name}),
		fsm.Reason{Kind: requested[d]}))
	o.waiting = append(o.waiting, rollWaiter{d == UndoRoll, done})
	r.advanced(program, o, "")
	return ""
}
