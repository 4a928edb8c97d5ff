package procs

import (
	"slices"
	"strings"

	"superd/config"
	"superd/procs/fsm"
)

// conflicts has which instances own which log files, and finds the instances that must not run at
// once. It blocks an instance until the one in conflict with it is removed.
//
// An instance must not start before each conflicting instance is removed. An instance without a
// number conflicts with the numbered instances of its program. The owners of its log files also
// conflict with it.
type conflicts struct {
	registry   *registry
	reconciler *reconciler            // for instances that are unblocked
	owners     map[string][]*instance // owners of a log file, by its path
}

func newConflicts(reg *registry, q *reconciler) *conflicts {
	return &conflicts{registry: reg, reconciler: q, owners: map[string][]*instance{}}
}

// with returns an instance that must be removed before in may start; nil if there is none.
func (c *conflicts) with(in *instance) *instance {
	if other := c.registry.byName[config.ProgramOf(in.name)]; other != nil && other != in {
		return other
	}
	if !numbered(in.name) {
		for _, other := range c.registry.of(in.program.Name) {
			if other != in {
				return other
			}
		}
	}
	named := namesLogFile(in.program)
	return c.owner(in.collector.Files(), func(other *instance) bool {
		return other != in && (other.membership.Leaves() || named && other.conflict == nil)
	})
}

// namesLogFile reports whether the definition names a log file: only then can another instance own
// it.
func namesLogFile(p *config.Program) bool { return p.Log.File != "" || p.Log.StderrFile != "" }

// owner returns an instance that owns one of these log files and satisfies counts; nil without one.
func (c *conflicts) owner(files []string, counts func(*instance) bool) *instance {
	for _, f := range files {
		if i := slices.IndexFunc(c.owners[f], counts); i >= 0 {
			return c.owners[f][i]
		}
	}
	return nil
}

// claim records that the instance owns files and no longer owns before; either may be empty. It
// reports whether the two differ.
func (c *conflicts) claim(in *instance, before, files []string) (moved bool) {
	if slices.Equal(files, before) {
		return false
	}
	for _, f := range before {
		if c.owners[f] = slices.DeleteFunc(c.owners[f], func(other *instance) bool { return other == in }); len(c.owners[f]) == 0 {
			delete(c.owners, f)
		}
	}
	for _, f := range files {
		c.owners[f] = append(c.owners[f], in)
	}
	return true
}

func numbered(instance string) bool { return strings.Contains(instance, "@") }

// find finds a conflicting instance, if there is one, and blocks the start until that is removed.
func (c *conflicts) find(in *instance) {
	in.conflict = c.with(in)
	if conflict := in.conflict; conflict != nil {
		conflict.conflicting = append(conflict.conflicting, in)
	}
}

// release unblocks the instances that conflict with this one, when it is removed or has other log
// files.
func (c *conflicts) release(in *instance) {
	waiting := in.conflicting
	in.conflicting = nil
	for _, other := range waiting {
		if other.scope.Closed() || other.conflict != in {
			continue
		}
		c.find(other)
		if other.conflict == nil {
			c.reconciler.enqueue(other)
		}
	}
}

// replace retires the instance and creates another one with that definition when it is gone. It is
// used if another instance still owns the new log file.
func (in *instance) replace(program *config.Program) {
	desired := in.machine.Desired()
	in.retire(fsm.By(fsm.ActorReload))
	in.setReplacement(program)
	in.replacementTarget = &desired
	in.relink()
	in.save()
}
