// Package launch finds the main process of a forking program, whose command has ended.
//
// A [Search] takes the process that the pid file names, if the program has one, as soon as it is a
// live process of the program's tree. Otherwise it takes the one process of the tree whose parent
// is not in the tree. What the tree has is the truth: a pid file may be old, or written by anybody.
// A program that forks twice leaves other processes for a moment, so what the tree has must stay
// the same for some time. A Search lives on the loop.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// firstPause is the first pause between two looks. Each pause has twice the length of the one
// before, up to Pause.
const firstPause = 50 * time.Millisecond

// Pause is the longest pause between two looks.
const Pause = time.Second

// settleTime is how long the one possible main process must be the only one.
const settleTime = 350 * time.Millisecond

// refuseTime is how long several processes must be the possible ones until the search fails: a slow
// daemon may need that long to end its intermediate processes.
const refuseTime = time.Second

// maxNames bounds the number of processes that a reason names.
const maxNames = 5

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
	// Launched makes a process of the tree the main process. group is its process group. The error
	// is [pidfd.ErrGone] if the process has just ended.
	Launched(pid, group int) error
	// LaunchFailed is called when none can be found.
	LaunchFailed(why string)
}

// A Search is a search for the main process.
type Search struct {
	Options
	pause time.Duration
	roots []int         // pids of the possible main processes, as the last look has found them
	since time.Duration // when a look first found these
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
	slow := s.Scope.After(Pause, func() {
		s.OnWait("it is still being read: its file system may hang")
	})
	var cancel *loop.Deferred
	cancel = s.Scope.Defer(s.Host.ReadPIDFile(path, user, func(pid int, err error) {
		cancel.Stop()
		slow.Stop()
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
	default:
		m, ok := find(found, pid)
		if !ok {
			s.again(fmt.Sprintf("it names process %d, which is no live process of the program", pid))
			return
		}
		s.launched(m)
	}
}

// launched makes m the main process, or looks again if that fails.
func (s *Search) launched(m host.Member) {
	pid := m.Process.Pid()
	switch err := s.Run.Launched(pid, m.Group); {
	case err == nil:
	case errors.Is(err, pidfd.ErrGone):
		s.again(fmt.Sprintf("process %d has just ended", pid))
	default:
		s.again(fmt.Sprintf("open process %d: %v", pid, err))
	}
}

// guess takes the one process whose parent is not in the tree, once it has been the only one for
// settleTime.
func (s *Search) guess(found []host.Member) {
	// A scan has them in any order
	slices.SortFunc(found, func(a, b host.Member) int { return a.Process.Pid() - b.Process.Pid() })
	var pids []int
	var roots []host.Member
	for _, m := range found {
		if _, ok := find(found, m.Parent); !ok {
			roots, pids = append(roots, m), append(pids, m.Process.Pid())
		}
	}
	now := s.Scope.Loop().Now()
	if !slices.Equal(pids, s.roots) {
		s.roots, s.since = pids, now
	}
	stable := now - s.since
	switch {
	case len(roots) > 1 && stable >= refuseTime:
		s.Run.LaunchFailed(fmt.Sprintf("it left %d processes, and any may be the main one: %s; set pid_file to the file in which it writes its pid",
			len(roots), names(roots)))
	case len(roots) == 1 && stable >= settleTime:
		s.launched(roots[0])
	case len(roots) > 1:
		s.again("any of these may be it: " + names(roots))
	default:
		s.again("")
	}
}

// names returns the names and pids of processes, of many only the first ones.
func names(members []host.Member) string {
	var all []string
	for _, m := range members[:min(len(members), maxNames)] {
		all = append(all, fmt.Sprintf("%s (%d)", m.Command, m.Process.Pid()))
	}
	text := strings.Join(all, ", ")
	if more := len(members) - maxNames; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// find returns the member with this pid.
func find(members []host.Member, pid int) (m host.Member, ok bool) {
	i := slices.IndexFunc(members, func(m host.Member) bool { return m.Process.Pid() == pid })
	if i < 0 {
		return host.Member{}, false
	}
	return members[i], true
}

// again looks again after a pause.
func (s *Search) again(why string) {
	s.OnWait(why)
	s.Scope.After(s.pause, s.look)
	s.pause = min(2*s.pause, Pause)
}
