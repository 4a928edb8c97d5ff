package procs

import (
	"slices"
	"sort"
	"strings"

	"superd/config"
	"superd/procs/fsm"
)

// A registry has all instances and what is counted of them. Whoever changes an instance reports to
// it; it knows nothing else of the supervisor.
type registry struct {
	instances  []*instance // sorted by compareInstances
	byName     map[string]*instance
	counts     [fsm.StateCount]int // instances in each state
	outputs    int                 // upper bound on the programs' FIFOs
	loggers    int32               // instances that are loggers
	unkillable int                 // instances with a process that survived SIGKILL
}

func newRegistry() *registry { return &registry{byName: map[string]*instance{}} }

// add adds an instance and counts it.
func (r *registry) add(in *instance) {
	r.byName[in.name] = in
	at, _ := slices.BinarySearchFunc(r.instances, in, compareInstances)
	r.instances = slices.Insert(r.instances, at, in)
	in.counted = in.machine.State()
	r.counts[in.counted]++
	r.outputs += fifosOf(in.program)
	r.loggers += one(in.isLogger())
}

// remove removes an instance.
func (r *registry) remove(in *instance) {
	delete(r.byName, in.name)
	if i, ok := slices.BinarySearchFunc(r.instances, in, compareInstances); ok {
		r.instances = slices.Delete(r.instances, i, i+1)
	}
	r.counts[in.counted]--
	r.outputs -= fifosOf(in.program)
	r.loggers -= one(in.isLogger())
}

// redefine replaces the definition of an instance, and counts it by the new one.
func (r *registry) redefine(in *instance, program *config.Program) {
	r.outputs += fifosOf(program) - fifosOf(in.program)
	r.loggers -= one(in.isLogger())
	in.program = program
	r.loggers += one(in.isLogger())
}

// setState counts an instance by the present state of its machine, and no longer by the state in
// which it was counted before.
func (r *registry) setState(in *instance) {
	r.counts[in.counted]--
	in.counted = in.machine.State()
	r.counts[in.counted]++
}

// setUnkillable sets the description of the instance's unkillable processes; empty: there are none.
func (r *registry) setUnkillable(in *instance, why string) {
	if in.unkillable != "" {
		r.unkillable--
	}
	if why != "" {
		r.unkillable++
	}
	in.ownProblems().unkillable = why
}

// countAtRest returns how many instances are at rest.
func (r *registry) countAtRest() int {
	return r.counts[fsm.Stopped] + r.counts[fsm.Exited] + r.counts[fsm.Failed]
}

// of returns the instances of a program in order, including those being removed. The result is a
// subslice of all instances.
func (r *registry) of(program string) []*instance {
	from := sort.Search(len(r.instances), func(i int) bool { return r.instances[i].program.Name >= program })
	to := from
	for to < len(r.instances) && r.instances[to].program.Name == program {
		to++
	}
	return r.instances[from:to]
}

// compareInstances orders instances by program, then web@2 before web@10.
func compareInstances(a, b *instance) int {
	if c := strings.Compare(a.program.Name, b.program.Name); c != 0 {
		return c
	}
	if c := len(a.name) - len(b.name); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}
