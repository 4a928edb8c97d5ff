package instance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/signame"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// A teardown kills the leftover processes of a run, runs the post_stop hooks, then kills what those
// left.
//
// It finds the live processes and sends each one the stop signal once. It waits for their end and
// scans again, since they may have started others. After the deadline it sends SIGKILL instead;
// with kill_mode = "mixed" from the beginning.
type teardown struct {
	in         *Instance
	run        *run
	scope      *loop.Scope // closed at its end
	round      *loop.Scope // of the processes that the last scan found
	signaled   map[host.ProcessKey]bool
	living     map[int]string  // command names of the processes of this round, by pid
	killing    syscall.Signal  // sent after the deadline; 0 before
	overdue    bool            // the deadline is over, and no signal follows
	due        *loop.Timer     // calls timedOut; nil after the deadline
	killed     map[string]bool // command names of the processes that were killed
	emptyScans int             // times that KillPause was over and no process was found
}

// maxEmptyScans is how many empty scans a non-empty tree may have before it counts as unkillable.
const maxEmptyScans = 5

// tearDown begins the teardown of the run.
func (r *run) tearDown() {
	now := r.in.Env.Loop.Now()
	deadline := r.stop.deadline
	if deadline == 0 {
		deadline = now + r.program.StopTimeout
	}
	r.stop.boundCommand(deadline)
	r.killLeftovers(deadline)
}

// leftoversKilled continues the teardown when no process of the run is left.
func (r *run) leftoversKilled() {
	in := r.in
	if in.probing() {
		if why := in.checks.Unkillable(); why != "" {
			in.markUnkillable(why)
		}
		in.checks.WhenIdle(func() { r.leftoversKilled() })
		return
	}
	if r.postStopped || len(r.program.PostStop) == 0 || in.Env.Owner.Phase().Hurry {
		removeDirectories(r)
		return
	}
	r.postStop().next()
}

// postStop returns the hookRun of the post_stop hooks, which then kills what they left.
func (r *run) postStop() *hookRun {
	in := r.in
	return newHooks(r, "post_stop", r.program.PostStop, func(err error) {
		if err != nil {
			in.Env.Log.Warn("hook failed", "instance", in.Name, "error", err)
		}
		r.postStopped = true
		r.killLeftovers(in.Env.Loop.Now() + r.program.StopTimeout)
	})
}

// killLeftovers ends the live processes of the run, with SIGKILL after the deadline. Then it calls
// leftoversKilled, not before it has returned.
func (r *run) killLeftovers(deadline time.Duration) {
	in := r.in
	r.stop.teardownDeadline = deadline
	in.Save()
	timeout := max(deadline-in.Env.Loop.Now(), 0)
	if r.program.KillMode == config.KillProcess {
		r.scope.Post(func() { r.leftoversKilled() })
		return
	}
	t := &teardown{in: in, run: r, scope: r.scope.Child(), signaled: map[host.ProcessKey]bool{}, killed: map[string]bool{}}
	r.teardown = t
	t.round = t.scope.Child()
	switch now := timeout == 0 || in.Env.Owner.Phase().Hurry || r.program.KillMode == config.KillMixed; {
	case now && !r.stop.spared():
		t.killing = r.stop.killSignal()
		t.scope.After(host.KillPause, t.onKillTimeout)
	default:
		t.due = t.scope.After(timeout, t.timedOut)
	}
	t.scope.Post(t.scan)
}

// scan finds the live processes.
func (t *teardown) scan() {
	t.round.Close()
	t.round = t.scope.Child()
	round := t.round
	t.in.Tree.Look(func(found []host.Member) {
		if round.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		t.track(round, found)
	})
}

// track signals the live processes and waits for their end.
func (t *teardown) track(round *loop.Scope, found []host.Member) {
	t.living = map[int]string{}
	if t.run.main.exitedEarly && len(found) > 0 {
		t.run.main.exitedEarly = false
		wentToBackground(t.in)
	}
	unwatched := false
	for _, m := range found {
		if t.run.program.KillMode == config.KillGroup && m.Group != int(t.run.main.group) {
			m.Process.Close()
			continue
		}
		pid := m.Process.Pid()
		t.living[pid] = m.Command
		round.Defer(func() { m.Process.Close() })
		var watch *loop.Watch
		watch, err := round.OnReadable(m.Process.FD(), func() {
			watch.Stop() // the pidfd stays readable
			delete(t.living, pid)
			if len(t.living) == 0 {
				t.scan()
			}
		})
		if err != nil {
			t.in.Env.Reaper.LogUnwatched(pid, err)
			unwatched = true
		}
	}
	if len(t.living) == 0 {
		t.end()
		return
	}
	if unwatched {
		round.After(host.UnwatchedPause, t.scan) // no watch reports its end
	}
	t.in.Env.Owner.Changed()
	if t.killing != 0 {
		if t.killing == unix.SIGKILL && t.run.program.KillMode.KillsTree() {
			t.run.killTree(t.killing)
		}
		for _, m := range found {
			t.send(m, t.killing)
			if t.killing != unix.SIGKILL {
				t.send(m, unix.SIGCONT)
			}
		}
		for _, command := range t.living {
			t.killed[command] = true
		}
		if t.in.unkillable != "" { // other processes may have been reported
			round.After(host.KillPause, t.onKillTimeout)
		}
		return
	}
	for _, m := range found {
		id := host.ProcessKey{Pid: m.Process.Pid(), Start: m.Start}
		if !t.signaled[id] {
			t.signaled[id] = true
			t.send(m, t.run.program.StopSignal)
			t.send(m, unix.SIGCONT)
		}
	}
}

func (t *teardown) send(m host.Member, sig syscall.Signal) {
	if _, ok := t.living[m.Process.Pid()]; !ok {
		return // spared by kill_mode
	}
	if err := m.Process.Signal(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		t.in.Env.Log.Error("signal not sent", "instance", t.in.Name, "pid", m.Process.Pid(), "signal", signame.Name(sig), "error", err)
	}
}

// timedOut handles the end of the stop time-out.
func (t *teardown) timedOut() {
	if !t.run.stop.spared() {
		t.kill()
		return
	}
	t.overdue = true
	if len(t.living) > 0 {
		t.run.stop.recordSpared()
	}
}

// kill begins to kill: the stop time-out is over, or the stop is hurried.
func (t *teardown) kill() {
	if t.killing == t.run.stop.killSignal() {
		return
	}
	t.killing = t.run.stop.killSignal()
	if t.killing == unix.SIGKILL && t.run.program.KillMode.KillsTree() {
		t.run.killTree(t.killing) // including processes that superd can't see
	}
	if len(t.living) > 0 {
		t.in.Env.Log.Warn("stop_timeout is over, killing leftover processes", "instance", t.in.Name, "processes", len(t.living))
	}
	t.scope.After(host.KillPause, t.onKillTimeout)
	t.scan()
}

// onKillTimeout reports the processes that survived SIGKILL.
func (t *teardown) onKillTimeout() {
	if len(t.living) == 0 {
		if t.emptyScans++; t.emptyScans > maxEmptyScans {
			t.in.markUnkillable("it has processes that superd cannot find")
			return
		}
		if t.killing == unix.SIGKILL && t.run.program.KillMode.KillsTree() {
			t.run.killTree(t.killing) // scans kill for KillPause only
		}
		t.scope.After(host.KillPause, t.onKillTimeout) // a scan is under way
		return
	}
	t.in.reportUnkillable(t.killing, slices.Sorted(maps.Keys(t.living))...)
}

func (t *teardown) end() {
	t.scope.Close()
	t.run.teardown = nil
	if len(t.killed) > 0 {
		t.in.Machine.LeftoversKilled(strings.Join(slices.Sorted(maps.Keys(t.killed)), ", "))
	}
	t.in.clearUnkillable()
	t.run.leftoversKilled()
}

// stage returns what the teardown does.
func (t *teardown) stage() string {
	var living []string
	for _, pid := range slices.Sorted(maps.Keys(t.living)) {
		living = append(living, fmt.Sprintf("%s (%d)", t.living[pid], pid))
	}
	if len(living) == 0 {
		return "looking for leftover processes"
	}
	text := "ending leftover processes: " + strings.Join(living, ", ")
	if t.overdue && t.killing == 0 {
		text += "; " + sparedText
	}
	return text
}
