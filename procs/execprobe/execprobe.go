// Package execprobe runs exec checks: checks by a command.
//
// A [Runner] runs the checks of one instance, one at a time. They have a process tree of their own,
// so that a check can be killed with all its processes while the program runs. A check ends when
// none of its processes lives any more. What survives SIGKILL is reported as unkillable.
//
// A Runner lives on the loop.
package execprobe

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
)

// Options say where a [Runner] runs its checks.
type Options struct {
	Instance string
	TreePath string      // path of the tree that a predecessor created; empty: none
	Scope    *loop.Scope // ends all checks
	Host     host.Host
	Reaper   Reaper
	Log      *slog.Logger
	// Calls f once the path of the tree is in the journal, or could not be written
	AfterSaving func(f func(error))
	// Called when the checks have unkillable processes, other ones than before, or no longer; the
	// texts describe them and are empty without any
	OnUnkillable func(before, now string)
}

// A Reaper reaps the processes of checks.
type Reaper interface {
	// WatchChild calls reap in each turn after the process has ended, until scope is closed. The
	// end of scope closes the process. In a resource shortage, watched is false and reap is called
	// periodically.
	WatchChild(scope *loop.Scope, p host.Process, storedName string, reap func()) (watched bool)
	// WaitStatus returns the exit status of a process, if it has ended, and forgets it.
	WaitStatus(p host.Process) (exit pidfd.Exit, ended bool)
}

// ErrStopped is the result of a check that was stopped.
var ErrStopped = errors.New("stopped")

// A NotRun is the result of a check whose command could not be run.
type NotRun struct{ Err error }

func (e NotRun) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e NotRun) Unwrap() error { return e.Err }

// A Runner runs the exec checks of an instance, one at a time.
type Runner struct {
	Options
	tree       host.Tree
	recorded   bool     // the journal has the path of tree, or could not be written
	check      *check   // check under way; nil without one
	cleaningUp bool     // leftover processes of a check are being killed
	waiting    []func() // functions to call when no process of a check lives
	hangsIn    string   // stage in which a cancelled worker hangs; empty without one
	unkillable string   // describes the processes that SIGKILL did not end; empty without any
}

// New returns a Runner without checks.
func New(o Options) *Runner {
	return &Runner{
		Options: o, tree: o.Host.NewTree(o.Instance+host.ProbeSuffix, o.TreePath),
		recorded: o.TreePath != "",
	}
}

// Check starts a check, once no process of an earlier one lives. done is called once, on the loop,
// not before Check has returned. stop ends the check and all its processes, and reports whether the
// command may have run. spec is called when the check starts. It returns the specification of a
// process of the run that executes the command; Check sets its tree.
func (r *Runner) Check(spec func() *host.SpawnSpec, done func(error)) (stop func() (begun bool)) {
	c := &check{runner: r, spec: spec, done: done}
	r.WhenIdle(func() {
		r.check = c
		switch {
		case c.stopped:
			r.Scope.Post(func() { c.end(ErrStopped) })
		case r.hangsIn != "":
			err := fmt.Errorf("the previous check still hangs in %s; %s", r.hangsIn, host.HangHint)
			r.Scope.Post(func() { c.end(NotRun{err}) })
		default:
			c.begin()
		}
	})
	return c.stop
}

// Busy reports whether a process of a check may live.
func (r *Runner) Busy() bool { return r.check != nil || r.cleaningUp }

// WhenIdle calls f when no process of a check lives. It calls f before it returns if that is
// already so.
func (r *Runner) WhenIdle(f func()) {
	if !r.Busy() {
		f()
		return
	}
	r.waiting = append(r.waiting, f)
}

// runWaiting calls the waiting functions in order, until one of them makes the runner busy.
func (r *Runner) runWaiting() {
	for len(r.waiting) > 0 && !r.Busy() {
		first := r.waiting[0]
		r.waiting = r.waiting[1:]
		first()
	}
}

// TreePath returns the path of the tree, for a successor.
func (r *Runner) TreePath() string { return r.tree.Path() }

// Unkillable describes the processes that SIGKILL did not end; empty without any.
func (r *Runner) Unkillable() string { return r.unkillable }

// Remove releases the tree, in which no process lives.
func (r *Runner) Remove() { r.tree.Remove() }

// Current returns the spawn of the current check, and whether it has a process. running is false
// without a check.
func (r *Runner) Current() (pending host.PendingSpawn, hasProcess, running bool) {
	if r.check == nil {
		return nil, false, false
	}
	return r.check.pending, r.check.process != nil, true
}

// StartedAt returns when the process of the current check was started; 0 without one.
func (r *Runner) StartedAt() time.Duration {
	if r.check == nil {
		return 0
	}
	return r.check.startedAt
}

// CleanUp kills the processes in the tree and calls f when none lives.
func (r *Runner) CleanUp(f func()) {
	r.cleaningUp = true
	scope := r.Scope.Child()
	living := map[int]bool{}
	var round *loop.Scope
	finish := func() {
		scope.Close()
		r.cleaningUp = false
		r.setUnkillable("")
		f()
		r.runWaiting()
	}
	if r.tree.Empty() {
		finish()
		return
	}
	var scan func()
	track := func(found []host.Member) {
		if scope.Closed() {
			for _, m := range found {
				m.Process.Close()
			}
			return
		}
		clear(living)
		if len(found) == 0 {
			finish()
			return
		}
		if err := r.tree.Kill(); err != nil {
			r.Log.Error("process tree of a check not killed", "instance", r.Instance, "error", err)
		}
		round = scope.Child()
		rescan := func() {
			round.Close()
			scan()
		}
		for _, m := range found {
			pid := m.Process.Pid()
			living[pid] = true
			round.Defer(func() { m.Process.Close() })
			err := m.Process.Signal(unix.SIGKILL)
			if err != nil && !errors.Is(err, pidfd.ErrGone) {
				r.Log.Error("signal not sent",
					"instance", r.Instance, "pid", pid, "signal", "SIGKILL", "error", err)
			}
			var watch *loop.Watch
			watch, err = round.OnReadable(m.Process.FD(), func() {
				watch.Stop()
				delete(living, pid)
				if len(living) == 0 {
					rescan()
				}
			})
			if err != nil {
				round.After(host.UnwatchedPause, rescan)
			}
		}
	}
	scan = func() { r.tree.Look(track) }
	scope.After(host.KillPause, func() { r.reportUnkillable(slices.Sorted(maps.Keys(living))...) })
	scan()
}

// reportUnkillable reports processes of a check that survived SIGKILL.
func (r *Runner) reportUnkillable(pids ...int) {
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d of a check survives SIGKILL: state %s",
			pid, r.Host.WaitsIn(pid).Text))
	}
	if len(text) > 0 {
		r.markUnkillable(strings.Join(text, "; "))
	}
}

// markUnkillable records that a check has an unkillable process.
func (r *Runner) markUnkillable(why string) {
	r.Log.Error("check is unkillable", "instance", r.Instance, "reason", why)
	r.setUnkillable(why)
}

// setUnkillable records which processes of a check are unkillable; empty: none.
func (r *Runner) setUnkillable(why string) {
	before := r.unkillable
	if r.unkillable = why; before != "" || why != "" {
		r.OnUnkillable(before, why)
	}
}
