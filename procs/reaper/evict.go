package reaper

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/signame"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// evictTimeout is the time between SIGTERM and SIGKILL for an unattributed process at shutdown.
const evictTimeout = 5 * time.Second

// An Eviction ends the unattributed processes at the end of a shutdown, so that none of them
// survives superd.
type Eviction struct {
	host     host.Host
	log      *slog.Logger
	scope    *loop.Scope
	round    *loop.Scope // watches of the last scan
	living   map[int]string
	signaled map[host.ProcessKey]bool
	killing  bool
	done     func()
}

// NewEviction returns an eviction that calls done when no process is left, or those left are
// unkillable.
func NewEviction(h host.Host, log *slog.Logger, scope *loop.Scope, done func()) *Eviction {
	return &Eviction{host: h, log: log, scope: scope, signaled: map[host.ProcessKey]bool{}, done: done}
}

// Start starts the eviction. With hurry it begins with SIGKILL. It may call done before it returns.
func (e *Eviction) Start(hurry bool) {
	e.killing = hurry
	e.round = e.scope.Child()
	if e.killing {
		e.scope.After(host.KillPause, e.giveUp)
	} else {
		e.scope.After(evictTimeout, e.Kill)
	}
	e.scan()
}

// scan finds the live unattributed processes.
func (e *Eviction) scan() {
	e.round.Close()
	e.round = e.scope.Child()
	round := e.round
	e.host.Unattributed(func(found []host.Member) {
		if round.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		e.track(found)
	})
}

// track signals the found processes and waits for their end.
func (e *Eviction) track(found []host.Member) {
	e.living = map[int]string{}
	if len(found) == 0 {
		e.end()
		return
	}
	for _, m := range found {
		pid, key := m.Process.Pid(), host.ProcessKey{Pid: m.Process.Pid(), Start: m.Start}
		e.living[pid] = m.Command
		e.round.Defer(func() { m.Process.Close() })
		var watch *loop.Watch
		watch, err := e.round.OnReadable(m.Process.FD(), func() {
			watch.Stop() // it stays readable
			if delete(e.living, pid); len(e.living) == 0 {
				e.scan()
			}
		})
		if err != nil { // without a watch, only a scan shows its end
			e.round.After(host.UnwatchedPause, e.scan)
		}
		switch {
		case e.killing:
			e.send(m, unix.SIGKILL)
		case !e.signaled[key]:
			e.signaled[key] = true
			e.log.Warn("ending an unattributed process", "pid", pid, "command", m.Command)
			e.send(m, unix.SIGTERM)
			e.send(m, unix.SIGCONT)
		}
	}
}

func (e *Eviction) send(m host.Member, sig syscall.Signal) {
	if err := m.Process.Signal(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		e.log.Error("signal not sent", "pid", m.Process.Pid(), "signal", signame.Name(sig), "error", err)
	}
}

// Kill begins SIGKILL, unless that has begun.
func (e *Eviction) Kill() {
	if e.killing || e.scope.Closed() {
		return
	}
	e.killing = true
	e.scope.After(host.KillPause, e.giveUp)
	e.scan()
}

// giveUp logs the processes that survived SIGKILL, if the scan found any, and ends the eviction.
func (e *Eviction) giveUp() {
	for _, pid := range slices.Sorted(maps.Keys(e.living)) {
		e.log.Error("process left behind", "pid", pid, "command", e.living[pid],
			"waits_in", e.host.WaitsIn(pid).Text)
	}
	e.end()
}

func (e *Eviction) end() {
	e.scope.Close()
	e.done()
}
