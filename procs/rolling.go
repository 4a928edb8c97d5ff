package procs

import (
	"fmt"
	"slices"

	"superd/loop/task"
)

// RestartRolling restarts the instances that names select one by one: the next restart begins when
// the previous one is complete. After the first failure it restarts no further instance.
//
// done runs at the end, on the loop, after RestartRolling has returned. It does not run after
// cancel; the restarts continue, unless superd ends.
func (s *Supervisor) RestartRolling(names []string, done func([]CommandResult)) (cancel func(), err error) {
	found, err := s.selector.selection(names)
	if err != nil {
		return nil, err
	}
	var turns []string
	for _, in := range found.instances {
		if in.Membership.Stays() {
			turns = append(turns, in.Name)
		}
	}
	outcomes, canceled := s.selector.noInstanceResults(found), false
	task.Go(s.Scope, func(t *task.Task) error {
		restarted, err := s.roll(t, turns)
		if err == nil && !canceled {
			done(append(outcomes, restarted...))
		}
		return err
	})
	return func() { canceled = true }, nil
}

// roll restarts instances one by one. The error is that of a cancelled task.
func (s *Supervisor) roll(t *task.Task, turns []string) (outcomes []CommandResult, err error) {
	failed := ""
	for _, name := range turns {
		in := s.registry.named(name)
		switch {
		case in == nil || !in.Membership.Stays():
			outcomes = append(outcomes, CommandResult{Name: name, Message: "not restarted: removed meanwhile"})
			continue
		case failed != "":
			outcomes = append(outcomes, CommandResult{Name: name, State: in.Machine.State(), Message: fmt.Sprintf("not restarted: the restart of %s failed", failed)})
			continue
		}
		var restart task.Future[[]CommandResult]
		if _, err := s.Command(OpRestart, []string{name}, true, func(all []CommandResult) { restart.Resolve(all) }); err != nil {
			return nil, err
		}
		all, err := restart.Await(t)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			at := slices.IndexFunc(outcomes, func(before CommandResult) bool { return before.Name == o.Name })
			if at < 0 {
				outcomes = append(outcomes, o)
			} else { // a dependent of several restarted instances
				outcomes[at] = o
			}
			if !o.OK {
				failed = name
			}
		}
	}
	return outcomes, nil
}
