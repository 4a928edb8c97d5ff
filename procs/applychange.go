package procs

import (
	"slices"

	"superd/config"
	"superd/procs/instance"
)

// change applies a changed definition of the program to the instance. A change that a live run
// cannot take causes a restart. A pending backoff continues under the new restart policy. An
// instance that is wanted down stays down.
func (l *reloads) change(in *instance.Instance, c *config.Change) {
	before, program := in.Program, c.Program
	outdated := l.outdated(in, l.config.active)
	if before == program && !outdated {
		return // the predecessor has applied it
	}
	blocks := func(other *instance.Instance) bool { return other != in && other.Membership.Conflict == nil }
	if files := l.LogOptions(in.Name, program).Files(); !slices.Equal(files, in.Output.Collector.Files()) && l.conflicts.owner(files, blocks) != nil {
		l.replicas.replace(in, program)
		return
	}
	restarts := outdated || in.RestartsFor(c)
	l.registry.redefine(in, program)
	in.Redefined(before, restarts)
}
