package procs

import (
	"slices"
	"sort"
	"strings"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/instance"
	"superd/procs/instance/paths"
)

// A registry has all instances and what is counted of them. Whoever changes an instance reports to
// it; it knows nothing else of the supervisor.
type registry struct {
	instances  []*instance.Instance // sorted by compareInstances
	counts     [fsm.StateCount]int  // instances in each state
	outputs    int                  // upper bound on the programs' FIFOs
	loggers    int32                // instances that are loggers
	unkillable int                  // instances with a process that survived SIGKILL
}

// add adds an instance and counts it.
func (r *registry) add(in *instance.Instance) {
	at, _ := slices.BinarySearchFunc(r.instances, in, compareInstances)
	r.instances = slices.Insert(r.instances, at, in)
	in.Marks.Counted = in.Machine.State()
	r.counts[in.Marks.Counted]++
	r.outputs += paths.CountFIFOs(in.Program)
	r.loggers += one(in.IsLogger())
}

// remove removes an instance.
func (r *registry) remove(in *instance.Instance) {
	if i, ok := slices.BinarySearchFunc(r.instances, in, compareInstances); ok {
		r.instances = slices.Delete(r.instances, i, i+1)
	}
	r.counts[in.Marks.Counted]--
	r.outputs -= paths.CountFIFOs(in.Program)
	r.loggers -= one(in.IsLogger())
}

// redefine replaces the definition of an instance, and counts it by the new one.
func (r *registry) redefine(in *instance.Instance, program *config.Program) {
	r.outputs += paths.CountFIFOs(program) - paths.CountFIFOs(in.Program)
	r.loggers -= one(in.IsLogger())
	in.Program = program
	r.loggers += one(in.IsLogger())
}

// setState counts an instance by the present state of its machine, and no longer by the state in
// which it was counted before.
func (r *registry) setState(in *instance.Instance) {
	r.counts[in.Marks.Counted]--
	in.Marks.Counted = in.Machine.State()
	r.counts[in.Marks.Counted]++
}

// countUnkillable counts an instance that has unkillable processes by now, or no longer.
func (r *registry) countUnkillable(unkillable bool) {
	if unkillable {
		r.unkillable++
	} else {
		r.unkillable--
	}
}

// countAtRest returns how many instances are at rest.
func (r *registry) countAtRest() int {
	return r.counts[fsm.Stopped] + r.counts[fsm.Exited] + r.counts[fsm.Failed]
}

// named returns the instance of that name; nil if there is none.
func (r *registry) named(name string) *instance.Instance {
	program := config.ProgramOf(name)
	i, found := sort.Find(len(r.instances), func(i int) int {
		return compareNames(program, name, r.instances[i].Program.Name, r.instances[i].Name)
	})
	if !found {
		return nil
	}
	return r.instances[i]
}

// of returns the instances of a program in order, including those being removed. The result is a
// subslice of all instances.
func (r *registry) of(program string) []*instance.Instance {
	from := sort.Search(len(r.instances), func(i int) bool { return r.instances[i].Program.Name >= program })
	to := from
	for to < len(r.instances) && r.instances[to].Program.Name == program {
		to++
	}
	return r.instances[from:to]
}

// compareInstances orders instances by program, then web@2 before web@10.
func compareInstances(a, b *instance.Instance) int {
	return compareNames(a.Program.Name, a.Name, b.Program.Name, b.Name)
}

// compareNames is compareInstances for the names of programs and their instances.
func compareNames(program, name, otherProgram, other string) int {
	if c := strings.Compare(program, otherProgram); c != 0 {
		return c
	}
	if c := len(name) - len(other); c != 0 {
		return c
	}
	return strings.Compare(name, other)
}

func one(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
