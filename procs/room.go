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
	named := namesLog(in.program)
	return s.writer(in.capture.Files(), func(other *instance) bool {
		return other != in && (other.removed || named && !other.machine.hindered)
	})
}

// namesLog reports whether the program's table names a log file: only then it may be that of somebody else.
func namesLog(p *config.Program) bool { return p.Log.File != "" || p.Log.StderrFile != "" }

// writer returns an instance that has one of these log files and that counts; nil if there is none.
func (s *Supervisor) writer(files []string, counts func(*instance) bool) *instance {
	for _, f := range files {
		if i := slices.IndexFunc(s.writers[f], counts); i >= 0 {
			return s.writers[f][i]
		}
	}
	return nil
}

// occupy notes which log files the instance has now, and which it had: those of its capture, or none. It reports whether these are others.
func (in *instance) occupy(before, files []string) (moved bool) {
	if slices.Equal(files, before) {
		return false
	}
	writers := in.sup.writers
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

// findRoom notes whether somebody has to be gone before the instance may be started.
func (in *instance) findRoom() {
	in.hinderer = in.sup.hinderer(in)
	in.machine.hindered = in.hinderer != nil
	if h := in.hinderer; h != nil {
		h.hinders = append(h.hinders, in)
	}
}

// makeRoom is told that the instance has gone, or has other log files: it has those started who have waited for that.
func (in *instance) makeRoom() {
	waiting := in.hinders
	in.hinders = nil
	for _, other := range waiting {
		if other.scope.Closed() || other.hinderer != in {
			continue
		}
		other.findRoom()
		if !other.machine.hindered {
			other.touch()
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
