package proctree

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"superd/internal/procfs"
	"superd/internal/workers"
	"superd/procs/host"
)

// A TaggedProcess is a process with the environment tags of a supervisor of the same runtime
// directory, which started it or an ancestor of it.
type TaggedProcess struct {
	Stat procfs.Stat
	Tags
}

// Leads reports whether the process leads a session, as does each process that superd started
// itself.
func (t *TaggedProcess) Leads() bool { return t.Stat.Session == t.Stat.Pid }

// Leftover returns the process as one of a run that is unknown.
func (t *TaggedProcess) Leftover() host.Leftover {
	return host.Leftover{Pid: t.Stat.Pid, Command: t.Stat.Command, Instance: t.Instance, Run: t.Run, Leads: t.Leads()}
}

// Eldest returns the process from which all others descend; nil if there is none.
func Eldest(all []*TaggedProcess) *TaggedProcess {
	for _, t := range all {
		if !slices.ContainsFunc(all, func(other *TaggedProcess) bool { return other != t && !other.Stat.DescendsFrom(&t.Stat) }) {
			return t
		}
	}
	return nil
}

// leaderTagsTimeout bounds how long FindTagged waits for a process that a lookup request may mean.
const leaderTagsTimeout = 2 * time.Second

// FindTagged scans /proc for processes with an invocation id and the runtime directory in their
// environment tags. It retries processes whose environment can't be read yet: for tagsTimeout, or
// for leaderTagsTimeout if they lead a session and are not older than since, in clock ticks since
// boot.
func FindTagged(runtimeDir string, since uint64) ([]TaggedProcess, error) {
	pids, err := procfs.Pids()
	if err != nil {
		return nil, err
	}
	all, errs := make([]TaggedProcess, len(pids)), make([]error, len(pids))
	unreadable := make([]bool, len(pids))
	read := func(i int) {
		s, err := procfs.ReadStat(pids[i])
		if err != nil || s.Dead || s.Pid == os.Getpid() {
			errs[i] = shortage(err)
			return
		}
		tags, readable, err := readTagsOf(&s)
		all[i], unreadable[i], errs[i] = TaggedProcess{s, tags}, !readable, err
	}
	workers.Each(len(pids), read)
	for began, waits := time.Now(), true; waits; {
		waits = false
		for i, is := range unreadable {
			age := time.Since(began)
			if s := &all[i].Stat; !is || age > leaderTagsTimeout || age > tagsTimeout && (s.Session != s.Pid || s.Start < since) {
				continue
			}
			all[i], unreadable[i] = TaggedProcess{}, false
			read(i)
			waits = waits || unreadable[i]
		}
		if waits {
			time.Sleep(time.Millisecond)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	return slices.DeleteFunc(all, func(t TaggedProcess) bool { return t.Run == "" || t.Owner != runtimeDir }), nil
}
