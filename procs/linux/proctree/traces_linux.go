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

// A Trace is a process that a supervisor of the same runtime directory has started, directly or
// indirectly.
type Trace struct {
	Stat procfs.Stat
	Tags
}

// Leads reports whether the process leads a session, as does each process that superd started
// itself.
func (t *Trace) Leads() bool { return t.Stat.Session == t.Stat.Pid }

// Leftover returns the process as one of a run that is unknown.
func (t *Trace) Leftover() host.Leftover {
	return host.Leftover{Pid: t.Stat.Pid, Command: t.Stat.Command, Instance: t.Instance, Run: t.Run, Leads: t.Leads()}
}

// Eldest returns the process from which all others descend; nil if there is none.
func Eldest(all []*Trace) *Trace {
	for _, t := range all {
		if !slices.ContainsFunc(all, func(other *Trace) bool { return other != t && !other.Stat.DescendsFrom(&t.Stat) }) {
			return t
		}
	}
	return nil
}

// lookupPatience bounds how long FindTraces waits for a process that a lookup request may mean.
const lookupPatience = 2 * time.Second

// FindTraces scans /proc for processes with an invocation id and the runtime directory in their
// environment tags. It retries processes whose environment can't be read yet: for askPatience, or
// for lookupPatience if they lead a session and are not older than since, in clock ticks since
// boot.
func FindTraces(runtimeDir string, since uint64) ([]Trace, error) {
	pids, err := procfs.Pids()
	if err != nil {
		return nil, err
	}
	all, errs := make([]Trace, len(pids)), make([]error, len(pids))
	mute := make([]bool, len(pids))
	ask := func(i int) {
		s, err := procfs.ReadStat(pids[i])
		if err != nil || s.Dead || s.Pid == os.Getpid() {
			errs[i] = shortage(err)
			return
		}
		m, told, err := readTagsOf(&s)
		all[i], mute[i], errs[i] = Trace{s, m}, !told, err
	}
	workers.Each(len(pids), ask)
	for began, waits := time.Now(), true; waits; {
		waits = false
		for i, is := range mute {
			age := time.Since(began)
			if s := &all[i].Stat; !is || age > lookupPatience || age > askPatience && (s.Session != s.Pid || s.Start < since) {
				continue
			}
			all[i], mute[i] = Trace{}, false
			ask(i)
			waits = waits || mute[i]
		}
		if waits {
			time.Sleep(time.Millisecond)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	return slices.DeleteFunc(all, func(t Trace) bool { return t.Run == "" || t.Owner != runtimeDir }), nil
}
