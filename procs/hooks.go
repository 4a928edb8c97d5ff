package procs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
)

// A hookRun runs the hooks of one key one after the other, as processes of the instance's tree whose output goes into
// the program's log.
type hookRun struct {
	in       *instance
	run      *run
	key      string // pre_start or post_stop
	commands [][]string
	timeout  time.Duration // of each
	done     func(error)

	at      int
	scope   *loop.Scope   // of the hook at hand
	due     time.Duration // when it is killed
	limit   *loop.Timer   // which tells that; nil where it is told already
	pending PendingSpawn
	process Process
	id      pidfd.Identity
	kept    string      // the name under which the keeper has its pidfd
	stopped bool        // called off
	doomed  bool        // to be killed as soon as it is there
	failed  error       // why the hook at hand is being killed
	killDue *loop.Timer // until it is named as stuck; nil before it is being killed
}

var errHookStopped = errors.New("called off")

// newHooks returns a run of hooks that begins with next. done is called on the loop, not before next has returned, with the error of the
// first one that fails. No further hook is run then.
func (in *instance) newHooks(r *run, key string, commands [][]string, done func(error)) *hookRun {
	r.hook = &hookRun{in: in, run: r, key: key, commands: commands, timeout: r.program.StartTimeout, done: done}
	return r.hook
}

// from has the hooks begin with that one, counted from 0. Where there are fewer, the table has changed since: it is the last.
func (h *hookRun) from(at int) *hookRun {
	h.at = max(at, 0)
	for len(h.commands) <= h.at {
		h.commands = append(slices.Clip(h.commands), []string{"(of an earlier configuration)"})
	}
	return h
}

// next starts the hook at hand.
func (h *hookRun) next() {
	h.scope = h.run.scope.Child()
	h.due = h.in.sup.loop.Now() + h.timeout
	h.limit = h.scope.After(h.timeout, h.timedOut)
	program := *h.run.program
	program.Command = h.commands[h.at]
	b := h.in.newBirth(h.run)
	h.pending = h.in.sup.system.Spawn(h.in.spec(h.run, &program, b), func(child Child, err error) {
		b.settle(func() { h.result(b, child, err) })
	})
	h.in.save()
}

// result takes the worker's result.
func (h *hookRun) result(b *birth, child Child, err error) {
	h.pending = nil
	h.in.unstick()
	h.in.attach(b, child)
	if err != nil {
		h.end(fmt.Errorf("%s: %w", h.name(), err))
		return
	}
	h.watch(child.Process, child.ID, h.in.sup.keepProcess(child.Process))
	h.in.sup.log.Debug("hook started", "instance", h.in.name, "hook", h.key, "pid", h.process.Pid())
	switch {
	case h.doomed:
		h.kill()
	case h.stopped:
		h.askToEnd()
	default: // what it had to wait for is not its own
		h.due = h.in.sup.loop.Now() + h.timeout
		h.limit.Reset(h.timeout)
		h.in.save()
	}
}

// watch makes process that of the hook at hand. kept is the name under which the keeper has its pidfd.
func (h *hookRun) watch(process Process, id pidfd.Identity, kept string) {
	h.run.touched = true
	h.process, h.id, h.kept = process, id, kept
	h.in.sup.own(h.scope, h.process, kept, h.reap)
}

func (h *hookRun) reap() {
	exit, ended := h.in.sup.wait(h.process)
	if !ended || h.process == nil {
		return
	}
	h.in.sup.saveExit(h.id)
	h.in.unstick()
	switch {
	case h.failed != nil:
		h.end(h.failed)
	case h.stopped:
		h.end(errHookStopped)
	case !exit.Known || exit.Signal != 0 || exit.Code != 0:
		h.end(fmt.Errorf("%s: %s", h.name(), exit))
	case h.at+1 < len(h.commands):
		h.scope.Close()
		h.process = nil
		h.doomed = false
		h.at++
		h.next()
	default:
		h.end(nil)
	}
}

func (h *hookRun) end(err error) {
	h.scope.Close()
	h.process = nil
	h.run.hook = nil
	h.done(err)
}

// name shows the hook at hand.
func (h *hookRun) name() string { return h.key + " " + strings.Join(h.commands[h.at], " ") }

// stage tells what the hook at hand does.
func (h *hookRun) stage() string {
	if h.pending != nil {
		return h.name() + ": " + h.pending.Stage()
	}
	return h.name() + " runs"
}

// timedOut is a hook that takes too long.
func (h *hookRun) timedOut() {
	if h.pending != nil && h.pending.Queued() {
		h.limit.Reset(h.timeout) // the machine is slow, not the hook
		return
	}
	if h.pending != nil {
		h.failed = fmt.Errorf("%s: %s: no answer within start_timeout %s; %s", h.name(), h.pending.Stage(), h.timeout, hangHint)
	} else {
		h.failed = fmt.Errorf("%s: no end within start_timeout %s", h.name(), h.timeout)
	}
	h.kill()
}

// kill ends the hook at hand at once.
func (h *hookRun) kill() {
	h.doomed = true
	h.due = h.in.sup.loop.Now()
	h.in.save()
	h.killDue.Stop()
	h.killDue = h.scope.After(killPause, h.nameStuck)
	if h.process == nil {
		h.callOff()
		return
	}
	if err := h.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		h.in.sup.log.Error("hook not killed", "instance", h.in.name, "hook", h.key, "pid", h.process.Pid(), "error", err)
	}
}

// nameStuck tells what SIGKILL did not end, or what there is nothing yet to be sent to.
func (h *hookRun) nameStuck() {
	if h.process == nil {
		h.in.stick(h.stage() + ": no answer; " + hangHint)
		return
	}
	h.in.nameStuck(h.process.Pid())
}

// stop asks the hook at hand to end and kills it after the stop time-out.
func (h *hookRun) stop() {
	if h.stopped {
		return
	}
	h.stopped = true
	if h.process == nil {
		h.callOff()
		return
	}
	h.askToEnd()
}

func (h *hookRun) askToEnd() {
	for _, sig := range []syscall.Signal{h.run.program.StopSignal, unix.SIGCONT} {
		if err := h.process.SignalGroup(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
			h.in.sup.log.Error("hook not signalled", "instance", h.in.name, "hook", h.key, "pid", h.process.Pid(), "error", err)
		}
	}
	patience := h.run.program.StopTimeout
	if h.in.sup.inHurry() {
		patience = 0
	}
	h.due = min(h.due, h.in.sup.loop.Now()+patience)
	h.scope.After(patience, h.kill)
	h.in.save()
}

// callOff ends a hook that is not started yet. If it is too late for that, its result is about to come, unless the kernel itself
// hangs in the exec.
func (h *hookRun) callOff() {
	if h.pending == nil || !h.in.callOffPending(h.pending, h.name()+": ") {
		return
	}
	err := h.failed
	if err == nil {
		err = errHookStopped
	}
	h.end(err)
}
