package procs

import (
	"slices"
	"strings"

	"superd/config"
)

// An instance must not start before each conflicting instance is removed. An instance without a
// number conflicts with the numbered instances of its program. The owners of its log files also
// conflict with it.

// conflictOf returns an instance that must be removed before in may start; nil if there is none.
func (s *Supervisor) conflictOf(in *instance) *instance {
	if other := s.registry.byName[programOf(in.name)]; other != nil && other != in {
		return other
	}
	if !numbered(in.name) {
		for _, other := range s.registry.of(in.program.Name) {
			if other != in {
				return other
			}
		}
	}
	named := namesLogFile(in.program)
	return s.logFileOwner(in.collector.Files(), func(other *instance) bool {
		return other != in && (other.retiring || named && !other.machine.blockedByConflict)
	})
}

// namesLogFile reports whether the definition names a log file: only then can another instance own
// it.
func namesLogFile(p *config.Program) bool { return p.Log.File != "" || p.Log.StderrFile != "" }

// logFileOwner returns an instance that owns one of these log files and satisfies counts; nil
// without one.
func (s *Supervisor) logFileOwner(files []string, counts func(*instance) bool) *instance {
	for _, f := range files {
		if i := slices.IndexFunc(s.logFileOwners[f], counts); i >= 0 {
			return s.logFileOwners[f][i]
		}
	}
	return nil
}

// claimLogFiles records that the instance owns files and no longer owns before; either may be
// empty. It reports whether the two differ.
func (in *instance) claimLogFiles(before, files []string) (moved bool) {
	if slices.Equal(files, before) {
		return false
	}
	writers := in.sup.logFileOwners
	for _, f := range before {
		if writers[f] = slices.DeleteFunc(writers[f], func(other *instance) bool { return other == in }); len(writers[f]) == 0 {
			delete(writers, f)
		}
	}
	for _, f := range files {
		writers[f] = append(writers[f], in)
	}
	return true
}

func numbered(instance string) bool { return strings.Contains(instance, "@") }

// findConflict finds a conflicting instance, if there is one, and blocks the start until that is
// removed.
func (in *instance) findConflict() {
	in.conflict = in.sup.conflictOf(in)
	in.machine.blockedByConflict = in.conflict != nil
	if conflict := in.conflict; conflict != nil {
		conflict.conflicting = append(conflict.conflicting, in)
	}
}

// releaseLogFiles unblocks the instances that conflict with this one, when it is removed or has
// other log files.
func (in *instance) releaseLogFiles() {
	waiting := in.conflicting
	in.conflicting = nil
	for _, other := range waiting {
		if other.scope.Closed() || other.conflict != in {
			continue
		}
		other.findConflict()
		if !other.machine.blockedByConflict {
			in.sup.reconciler.enqueue(other)
		}
	}
}

// replace retires the instance and creates another one with that definition when it is gone. It is
// used if another instance still owns the new log file.
func (in *instance) replace(program *config.Program) {
	desired := in.machine.desired
	in.retire(actor(ActorReload))
	in.replacement, in.replacementTarget = program, &desired
	in.relink()
	in.save()
}
