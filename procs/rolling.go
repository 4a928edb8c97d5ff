package procs

import (
	"fmt"

	"superd/loop/task"
)

// RestartRolling restarts the instances that names select one after the other, each when the one before has come to what was asked for: so all
// others go on meanwhile. With the first that can't, it ends, and those after it are left alone. done runs at the end, on the loop, not before
// RestartRolling has returned; after cancel it doesn't run any more, while the command itself stands, but for the death of superd.
func (s *Supervisor) RestartRolling(names []string, done func([]Outcome)) (cancel func(), err error) {
	found, err := s.choose(names)
	if err != nil {
		return nil, err
	}
	var turns []string
	for _, in := range found.instances {
		if in.stays() {
			turns = append(turns, in.name)
		}
	}
	outcomes, canceled := s.vacant(found), false
	task.Go(s.scope, func(t *task.Task) error {
		restarted, err := s.roll(t, turns)
		if err == nil && !canceled {
			done(append(outcomes, restarted...))
		}
		return err
	})
	return func() { canceled = true }, nil
}

// roll restarts instances in turn. The error is that of a task that is cancelled.
func (s *Supervisor) roll(t *task.Task, turns []string) (outcomes []Outcome, err error) {
	failed := ""
	for _, name := range turns {
		in := s.byName[name]
		switch {
		case in == nil || !in.stays():
			outcomes = append(outcomes, Outcome{Name: name, Message: "not restarted: it was removed meanwhile"})
			continue
		case failed != "":
			outcomes = append(outcomes, Outcome{Name: name, State: in.machine.state, Message: fmt.Sprintf("not restarted, since %s could not be", failed)})
			continue
		}
		var restart task.Future[[]Outcome]
		if _, err := s.Command(OpRestart, []string{name}, true, func(all []Outcome) { restart.Resolve(all) }); err != nil {
			return nil, err
		}
		all, err := restart.Await(t)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if outcomes = append(outcomes, o); !o.OK {
				failed = name
			}
		}
	}
	return outcomes, nil
}
