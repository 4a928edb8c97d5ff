package procs

import (
	"os"
	"slices"
	"strings"

	"superd/config"
	"superd/procs/instance"
	"superd/procs/reconcile"
)

// conflicts has which instances own which log files, and finds the instances that must not run at
// once. It blocks an instance until the one in conflict with it is removed.
//
// An instance must not start before each conflicting instance is removed. An instance without a
// number conflicts with the numbered instances of its program, except the extra replicas of a roll.
// The owners of its log files also conflict with it.
type conflicts struct {
	registry   *registry
	reconciler *reconcile.Queue                // for instances that are unblocked
	isExtra    func(*instance.Instance) bool   // it may run beside one without a number
	owners     map[string]*instance.Instance   // the oldest owner of a log file, by its path
	moreOwners map[string][]*instance.Instance // the others, oldest first; mostly there are none
	// Instances that one blocks; some may be removed or have another conflict by now
	blocked map[*instance.Instance][]*instance.Instance
}

func newConflicts(reg *registry, q *reconcile.Queue, isExtra func(*instance.Instance) bool) *conflicts {
	return &conflicts{
		registry: reg, reconciler: q, isExtra: isExtra, owners: map[string]*instance.Instance{},
		moreOwners: map[string][]*instance.Instance{},
		blocked:    map[*instance.Instance][]*instance.Instance{},
	}
}

// with returns an instance that must be removed before in may start; nil if there is none.
func (c *conflicts) with(in *instance.Instance) *instance.Instance {
	if other := c.registry.named(config.ProgramOf(in.Name)); other != nil && other != in && !c.isExtra(in) {
		return other
	}
	if !numbered(in.Name) {
		for _, other := range c.registry.of(in.Program.Name) {
			if other != in && !c.isExtra(other) {
				return other
			}
		}
	}
	named := namesLogFile(in.Program)
	return c.owner(in.Output.Collector.Files(), func(other *instance.Instance) bool {
		return other != in && (other.Membership.Leaves() || named && other.Membership.Conflict == nil)
	})
}

// namesLogFile reports whether the definition names a log file: only then can another instance own
// it.
func namesLogFile(p *config.Program) bool { return p.Log.File != "" || p.Log.StderrFile != "" }

// owner returns an instance that owns one of these log files and satisfies counts; nil without one.
func (c *conflicts) owner(files []string, counts func(*instance.Instance) bool) *instance.Instance {
	for _, f := range files {
		if f == os.DevNull { // it takes any number of writers
			continue
		}
		if first := c.owners[f]; first != nil && counts(first) {
			return first
		}
		if i := slices.IndexFunc(c.moreOwners[f], counts); i >= 0 {
			return c.moreOwners[f][i]
		}
	}
	return nil
}

// claim records that the instance owns files and no longer owns before; either may be empty. It
// reports whether the two differ.
func (c *conflicts) claim(in *instance.Instance, before, files []string) (moved bool) {
	if slices.Equal(files, before) {
		return false
	}
	for _, f := range before {
		c.disown(f, in)
	}
	for _, f := range files {
		if c.owners[f] == nil {
			c.owners[f] = in
		} else {
			c.moreOwners[f] = append(c.moreOwners[f], in)
		}
	}
	return true
}

// disown records that the instance no longer owns a file.
func (c *conflicts) disown(file string, in *instance.Instance) {
	more := c.moreOwners[file]
	switch {
	case c.owners[file] != in:
		more = slices.DeleteFunc(more, func(other *instance.Instance) bool { return other == in })
	case len(more) > 0:
		c.owners[file], more = more[0], more[1:]
	default:
		delete(c.owners, file)
	}
	if c.moreOwners[file] = more; len(more) == 0 {
		delete(c.moreOwners, file)
	}
}

func numbered(instance string) bool { return strings.Contains(instance, "@") }

// find finds a conflicting instance, if there is one, and blocks the start until that is removed.
func (c *conflicts) find(in *instance.Instance) {
	in.Membership.Conflict = c.with(in)
	if conflict := in.Membership.Conflict; conflict != nil {
		c.blocked[conflict] = append(c.blocked[conflict], in)
	}
}

// release unblocks the instances that conflict with this one, when it is removed or has other log
// files.
func (c *conflicts) release(in *instance.Instance) {
	waiting := c.blocked[in]
	delete(c.blocked, in)
	for _, other := range waiting {
		if other.Closed() || other.Membership.Conflict != in {
			continue
		}
		c.find(other)
		if other.Membership.Conflict == nil {
			c.reconciler.Enqueue(other)
		}
	}
}
