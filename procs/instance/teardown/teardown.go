// Package teardown ends the leftover processes of a run.
//
// A [Teardown] finds the live processes of the run's tree and sends each one the stop signal once.
// It waits for their end and scans again, since they may have started others. After the deadline it
// sends the kill signal instead; with kill_mode = "mixed" from the beginning. It lives on the loop.
package teardown

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
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

// SparedText says why processes that have outlived the stop time-out are not killed, and what to
// do.
const SparedText = "final_kill = false: not killed; `superd ctl signal KILL` ends the main process"

// Options say what is torn down.
type Options struct {
	Instance string
	Run      Run
	Tree     host.Tree
	Scope    *loop.Scope // closed at the end
	Log      *slog.Logger
}

// A Run is what a teardown needs of its run.
type Run interface {
	// Program returns its definition.
	Program() *config.Program
	// Spares reports whether a process stays.
	Spares(m host.Member) bool
	// KillSignal returns the signal for what has not ended in time.
	KillSignal() syscall.Signal
	// Spared reports whether what has not ended in time gets no signal.
	Spared() bool
	// RecordSpared records that processes of the run have outlived the stop time-out.
	RecordSpared()
	// KillTree sends a signal to all processes of the tree; SIGKILL at once, where the kernel can.
	KillTree(sig syscall.Signal)
	// FoundLeftovers is called when live processes are found.
	FoundLeftovers()
	// LogUnwatched logs that the end of a process is noticed late.
	LogUnwatched(pid int, err error)
	// Changed is called when something that a status shows has changed.
	Changed()

	// Unkillable reports whether processes are reported as unkillable.
	Unkillable() bool
	// MarkUnkillable reports an unkillable process.
	MarkUnkillable(why string)
	// ReportUnkillable reports processes that survived the kill signal, and their wait states.
	ReportUnkillable(sig syscall.Signal, pids ...int)
	// TornDown is called when no process is left, with the command names of those that were killed.
	TornDown(killed []string)
}

// A Teardown is one teardown under way.
type Teardown struct {
	Options
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

// Start begins a teardown. Processes get the kill signal after the timeout, or at once if now is
// true. [Run.TornDown] is called at the end, not before Start has returned.
func Start(o Options, timeout time.Duration, now bool) *Teardown {
	t := &Teardown{Options: o, signaled: map[host.ProcessKey]bool{}, killed: map[string]bool{}}
	t.round = t.Scope.Child()
	if (now || timeout == 0) && !o.Run.Spared() {
		t.killing = o.Run.KillSignal()
		t.Scope.After(host.KillPause, t.onKillTimeout)
	} else {
		t.due = t.Scope.After(timeout, t.timedOut)
	}
	t.Scope.Post(t.scan)
	return t
}

// scan finds the live processes.
func (t *Teardown) scan() {
	t.round.Close()
	t.round = t.Scope.Child()
	round := t.round
	t.Tree.Look(func(found []host.Member) {
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
func (t *Teardown) track(round *loop.Scope, found []host.Member) {
	t.living = map[int]string{}
	if len(found) > 0 {
		t.Run.FoundLeftovers()
	}
	unwatched := false
	for _, m := range found {
		if t.Run.Spares(m) {
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
			t.Run.LogUnwatched(pid, err)
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
	t.Run.Changed()
	if t.killing != 0 {
		if t.killing == unix.SIGKILL && t.Run.Program().KillMode.KillsTree() {
			t.Run.KillTree(t.killing)
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
		if t.Run.Unkillable() { // other processes may have been reported
			round.After(host.KillPause, t.onKillTimeout)
		}
		return
	}
	for _, m := range found {
		id := host.ProcessKey{Pid: m.Process.Pid(), Start: m.Start}
		if !t.signaled[id] {
			t.signaled[id] = true
			t.send(m, t.Run.Program().StopSignal)
			t.send(m, unix.SIGCONT)
		}
	}
}

func (t *Teardown) send(m host.Member, sig syscall.Signal) {
	if _, ok := t.living[m.Process.Pid()]; !ok {
		return // spared by kill_mode
	}
	if err := m.Process.Signal(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
		t.Log.Error("signal not sent", "instance", t.Instance, "pid", m.Process.Pid(), "signal", signame.Name(sig), "error", err)
	}
}

// timedOut handles the end of the stop time-out.
func (t *Teardown) timedOut() {
	if !t.Run.Spared() {
		t.Kill()
		return
	}
	t.overdue = true
	if len(t.living) > 0 {
		t.Run.RecordSpared()
	}
}

// Redefine applies a definition whose stop time-out is longer by that. moved reports whether the
// deadline has moved.
func (t *Teardown) Redefine(by time.Duration) (moved bool) {
	switch {
	case t.due.Active():
		if by != 0 {
			t.due.Reset(t.due.Due() + by - t.Scope.Loop().Now())
		}
		return true
	case t.overdue && !t.Run.Spared():
		t.Scope.Post(t.Kill)
	}
	return false
}

// Living returns the live processes that the last scan found, and whether they get the kill signal.
func (t *Teardown) Living() (pids iter.Seq[int], killing bool) {
	return maps.Keys(t.living), t.killing != 0
}

// Kill begins to kill: the stop time-out is over, or the stop is hurried.
func (t *Teardown) Kill() {
	if t.killing == t.Run.KillSignal() {
		return
	}
	t.killing = t.Run.KillSignal()
	if t.killing == unix.SIGKILL && t.Run.Program().KillMode.KillsTree() {
		t.Run.KillTree(t.killing) // including processes that superd can't see
	}
	if len(t.living) > 0 {
		t.Log.Warn("stop_timeout is over, killing leftover processes", "instance", t.Instance, "processes", len(t.living))
	}
	t.Scope.After(host.KillPause, t.onKillTimeout)
	t.scan()
}

// onKillTimeout reports the processes that survived SIGKILL.
func (t *Teardown) onKillTimeout() {
	if len(t.living) == 0 {
		if t.emptyScans++; t.emptyScans > maxEmptyScans {
			t.Run.MarkUnkillable("it has processes that superd cannot find")
			return
		}
		if t.killing == unix.SIGKILL && t.Run.Program().KillMode.KillsTree() {
			t.Run.KillTree(t.killing) // scans kill for KillPause only
		}
		t.Scope.After(host.KillPause, t.onKillTimeout) // a scan is under way
		return
	}
	t.Run.ReportUnkillable(t.killing, slices.Sorted(maps.Keys(t.living))...)
}

func (t *Teardown) end() {
	t.Scope.Close()
	t.Run.TornDown(slices.Sorted(maps.Keys(t.killed)))
}

// Stage returns what the teardown does.
func (t *Teardown) Stage() string {
	var living []string
	for _, pid := range slices.Sorted(maps.Keys(t.living)) {
		living = append(living, fmt.Sprintf("%s (%d)", t.living[pid], pid))
	}
	if len(living) == 0 {
		return "looking for leftover processes"
	}
	text := "ending leftover processes: " + strings.Join(living, ", ")
	if t.overdue && t.killing == 0 {
		text += "; " + SparedText
	}
	return text
}
