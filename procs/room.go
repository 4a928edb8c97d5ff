package procs

import (
	"slices"
	"strings"

	"superd/config"
)

// An instance waits for room until those are gone who may not live beside it: instances of its program that have numbers where it has
// none, or none where it has one, and whoever has its log file.

// hinderer returns somebody who has to be gone before in may be started; nil if there is nobody.
func (s *Supervisor) hinderer(in *instance) *instance {
	if other := s.byName[programOf(in.name)]; other != nil && other != in {
		return other
	}
	if !numbered(in.name) {
		for _, other := range s.instancesOf(in.program.Name) {
			if other != in {
				return other
			}
		}
	}
	for _, other := range s.leaving {
		if other != in && share(other.capture.Files(), in.capture.Files()) {
			return other
		}
	}
	if namesLog(in.program) {
		return s.writer(in.capture.Files(), in)
	}
	return nil
}

// namesLog reports whether the program's table names a log file: only then it may be that of somebody else.
func namesLog(p *config.Program) bool { return p.Log.File != "" || p.Log.StderrFile != "" }

func share(files, others []string) bool {
	return slices.ContainsFunc(files, func(f string) bool { return slices.Contains(others, f) })
}

// writer returns another instance than in that has one of these log files; nil if there is none.
func (s *Supervisor) writer(files []string, in *instance) *instance {
	i := slices.IndexFunc(s.instances, func(other *instance) bool {
		return other != in && !other.machine.hindered && share(other.capture.Files(), files)
	})
	if i < 0 {
		return nil
	}
	return s.instances[i]
}

func numbered(instance string) bool { return strings.Contains(instance, "@") }

// findRoom notes whether somebody has to be gone before the instance may be started.
func (in *instance) findRoom() {
	s := in.sup
	in.hinderer = s.hinderer(in)
	if in.machine.hindered = in.hinderer != nil; in.machine.hindered && !slices.Contains(s.hindered, in) {
		s.hindered = append(s.hindered, in)
	}
}

// makeRoom is told that somebody has gone, or has another log file: it has those started who have waited for that.
func (s *Supervisor) makeRoom() {
	waiting := s.hindered
	s.hindered = nil
	for _, in := range waiting {
		if in.scope.Closed() {
			continue
		}
		in.findRoom()
		if !in.machine.hindered {
			in.touch()
		}
	}
}

// replace has another instance of that table take the place of this one, which has to go first: its log file is that of somebody who has not
// moved yet.
func (in *instance) replace(program *config.Program) {
	w := in.machine.wanted
	in.leave(byChange)
	in.next, in.nextWish = program, &w
	in.rejoin()
	in.save()
}
