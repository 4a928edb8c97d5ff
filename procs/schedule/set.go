package schedule

import (
	"hash/fnv"
	"maps"

	"superd/loop"
)

// A Set has the schedules of all instances: the table of those in force, and the progress of those
// that a predecessor saved and no instance has taken yet.
type Set struct {
	scope   *loop.Scope
	bootID  string
	machine string // id of this machine, for the jitter
	onLate  func(error)
	forget  func(instance string)
	table   *Table           // nil before the first schedule is in force
	saved   map[string]State // by instance
}

// NewSet returns a set without schedules. bootID and machine are ids of this boot and machine.
// onLate is called if the clock can't be watched, as by [NewTable]. forget is called when the saved
// progress of an instance is not needed any more.
func NewSet(
	scope *loop.Scope, bootID, machine string, onLate func(error), forget func(instance string),
) *Set {
	return &Set{
		scope: scope, bootID: bootID, machine: machine, onLate: onLate, forget: forget,
		saved: map[string]State{},
	}
}

// Restore sets the progress that a predecessor saved, by instance.
func (s *Set) Restore(saved map[string]State) { maps.Copy(s.saved, saved) }

// Add is [Table.Add] for the schedule of an instance. It sets the seed of spec.
func (s *Set) Add(
	scope *loop.Scope, instance string, spec Spec, before *State, run func(Run),
) (*Entry, error) {
	if s.table == nil {
		s.table = NewTable(s.scope, s.bootID, s.onLate)
	}
	spec.Seed = s.seed(instance)
	return s.table.Add(scope, spec, before, run)
}

// seed returns the seed of an instance's schedule jitter. It differs between machines.
func (s *Set) seed(instance string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s.machine + "\x00" + instance))
	return h.Sum64()
}

// Take returns the progress of the schedule that a predecessor saved for the instance, once; nil
// without any.
func (s *Set) Take(instance string) *State {
	state, ok := s.saved[instance]
	if !ok {
		return nil
	}
	s.drop(instance)
	return &state
}

// DropSaved deletes the progress that no instance has taken.
func (s *Set) DropSaved() {
	for name := range s.saved {
		s.drop(name)
	}
}

func (s *Set) drop(instance string) {
	delete(s.saved, instance)
	s.forget(instance)
}
