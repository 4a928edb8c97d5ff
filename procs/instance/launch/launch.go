// Package launch finds the main process of a forking program, whose command has ended.
//
// A [Search] takes the process that the pid file names, if the program has one, as soon as it is a
// live process of the program's tree. Otherwise it takes the one process of the tree whose parent
// is not in the tree. What the tree has is the truth: a pid file may be old, or written by anybody.
// A Search lives on the loop.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"superd/loop"
	"superd/procs/host"
)

// firstPause is the first pause between two looks. Each pause has twice the length of the one
// before, up to Pause.
const firstPause = 50 * time.Millisecond

// Pause is the longest pause between two looks.
const Pause = time.Second

// Options say what is searched.
type Options struct {
	Run   Run
	Host  host.Host
	Tree  host.Tree
	Scope *loop.Scope // ends the search
	// Called when there is another reason than before why no main process is found
	OnWait func(why string)
}

// A Run is what a search needs of its run.
type Run interface {
	// PIDFile returns the path of the pid file, "" for none, and the user who may write it.
	PIDFile() (path, user string, err error)
	// Began returns the start time of the command, in clock ticks since boot. Processes from before
	// are of an earlier run, and spared by kill_mode.
	Began() uint64
	// Launched makes a process of the tree the main process, unless it has just ended.
	Launched(pid int) bool
	// LaunchFailed is called when none can be found.
	LaunchFailed(why string)
}

// A Search is a search for the main process.
type Search struct {
	Options
	pause time.Duration
	last  []int // pids that the last look has found as possible main processes
}

// Start starts a search, which ends with a call of [Run.Launched] or [Run.LaunchFailed]. Neither is
// called before Start has returned.
func Start(o Options) {
	s := &Search{Options: o, pause: firstPause}
	s.Scope.Post(s.look)
}

// look reads the pid file, if there is one, and then scans the tree.
func (s *Search) look() {
	path, user, err := s.Run.PIDFile()
	switch {
	case err != nil:
		s.Run.LaunchFailed(err.Error())
		return
	case path == "":
		s.scan(s.guess)
		return
	}
	var cancel *loop.Deferred
	cancel = s.Scope.Defer(s.Host.ReadPIDFile(path, user, func(pid int, err error) {
		cancel.Stop()
		s.scan(func(found []host.Member) { s.take(pid, err, found) })
	}))
}

// scan calls next with the live processes of the run, unless there are none.
func (s *Search) scan(next func([]host.Member)) {
	s.Tree.Look(func(found []host.Member) {
		var own []host.Member
		for _, m := range found {
			defer m.Process.Close()
			if m.Start >= s.Run.Began() {
				own = append(own, m)
			}
		}
		switch {
		case s.Scope.Closed():
		case len(own) == 0:
			s.Run.LaunchFailed("it left no process")
		default:
			next(own)
		}
	})
}

// take takes the process that the pid file names. err says why that names none.
func (s *Search) take(pid int, err error, found []host.Member) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.again("there is no such file")
	case err != nil:
		s.again(err.Error())
	case !contains(found, pid) || !s.Run.Launched(pid):
		s.again(fmt.Sprintf("it names process %d, which is no live process of the program", pid))
	}
}

// guess takes the one process whose parent is not in the tree. A process that forks twice leaves
// another one for a moment, so two looks in a row must find the same.
func (s *Search) guess(found []host.Member) {
	// A scan has them in any order
	slices.SortFunc(found, func(a, b host.Member) int { return a.Process.Pid() - b.Process.Pid() })
	var roots []int
	var names []string
	for _, m := range found {
		if !contains(found, m.Parent) {
			roots = append(roots, m.Process.Pid())
			names = append(names, fmt.Sprintf("%s (%d)", m.Command, m.Process.Pid()))
		}
	}
	same := fmt.Sprint(roots) == fmt.Sprint(s.last)
	s.last = roots
	switch {
	case !same || len(roots) == 0:
		s.again("")
	case len(roots) > 1:
		s.Run.LaunchFailed(fmt.Sprintf("it left %d processes, and any may be the main one: %s; set pid_file to the file in which it writes its pid",
			len(roots), strings.Join(names, ", ")))
	case !s.Run.Launched(roots[0]):
		s.again("")
	}
}

// contains reports whether the process with this pid is among the members.
func contains(members []host.Member, pid int) bool {
	for _, m := range members {
		if m.Process.Pid() == pid {
			return true
		}
	}
	return false
}

// again looks again after a pause.
func (s *Search) again(why string) {
	s.OnWait(why)
	s.Scope.After(s.pause, s.look)
	s.pause = min(2*s.pause, Pause)
}
