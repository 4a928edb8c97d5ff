package instance

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
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A hookRun runs the hooks of one key in order, as processes of the instance's tree. Their output
// is captured as that of the program.
type hookRun struct {
	in       *Instance
	run      *run
	key      string // pre_start or post_stop
	commands [][]string
	timeout  time.Duration // of each hook
	done     func(error)   // called once at the end

	at              int           // index of the current hook
	scope           *loop.Scope   // scope of the current hook, as are the fields below
	due             time.Duration // when it is killed
	timer           *loop.Timer   // fires at due; nil once it has fired
	pending         host.PendingSpawn
	process         host.Process
	id              pidfd.Identity
	fdName          string      // name of its pidfd in the descriptor store
	stopped         bool        // cancelled: no further hook runs
	killWhenStarted bool        // kill the hook as soon as its process exists
	awaitsStatus    bool        // its time-out is over, it has ended, and its exit status may come
	failed          error       // why it is being killed; nil: it is not
	killDue         *loop.Timer // until it is reported as unkillable; nil before SIGKILL
}

var errHookStopped = errors.New("cancelled")

// newHooks returns a run of hooks, which next begins. done is called on the loop, not before next
// has returned, with the error of the first hook that fails. No further hook runs then.
func newHooks(r *run, key string, commands [][]string, done func(error)) *hookRun {
	r.hook = &hookRun{in: r.in, run: r, key: key, commands: commands, timeout: r.program.StartTimeout, done: done}
	return r.hook
}

// snapshot returns the snapshot of the current hook; nil for nil.
func (h *hookRun) snapshot() *snapshot.Hook {
	if h == nil {
		return nil
	}
	v := &snapshot.Hook{At: h.at, Stopped: h.stopped || h.killWhenStarted, Due: h.due, Timeout: h.timeout}
	if h.failed != nil {
		v.Failed = h.failed.Error()
	}
	if h.process != nil {
		v.Process = snapshot.NewProcess(h.id, h.fdName)
	}
	return v
}

// restore sets the current hook to a snapshot, without its process and its timer.
func (h *hookRun) restore(v *snapshot.Hook) {
	h.from(v.At)
	h.due, h.stopped = v.Due, v.Stopped
	if v.Failed != "" {
		h.failed = errors.New(v.Failed)
	}
	if v.Timeout > 0 {
		h.timeout = v.Timeout
	}
}

// from sets the index of the first hook to run. If the definition has fewer hooks by now, it
// appends a placeholder as the last one.
func (h *hookRun) from(at int) *hookRun {
	h.at = max(at, 0)
	for len(h.commands) <= h.at {
		h.commands = append(slices.Clip(h.commands), []string{"(of an earlier configuration)"})
	}
	return h
}

// next starts the current hook.
func (h *hookRun) next() {
	h.scope = h.run.scope.Child()
	h.due = h.in.Env.Loop.Now() + h.timeout
	h.timer = h.scope.After(h.timeout, h.timedOut)
	program := *h.run.program
	program.Command = h.commands[h.at]
	record := h.run.newStartRecord(new(h.at))
	spec := h.run.spawnSpec(&program, record)
	spec.User = h.run.program.HooksUser
	h.pending = h.in.Env.Host.Spawn(spec, func(child host.Child, err error) {
		record.complete(func() { h.result(record, child, err) })
	})
	h.in.Save()
}

// result handles the result of the spawn.
func (h *hookRun) result(record *startRecord, child host.Child, err error) {
	h.pending = nil
	h.in.clearUnkillable()
	attachOutput(h.in, record, child)
	if isKilled(err) && h.stopped && h.failed == nil {
		h.end(errHookStopped)
		return
	}
	if err != nil {
		h.end(fmt.Errorf("%s: %w", h.name(), err))
		return
	}
	h.watch(child.Process, child.ID, h.in.Env.FDs.StoreProcess(child.Process))
	h.in.Env.Log.Debug("hook started", "instance", h.in.Name, "hook", h.key, "pid", h.process.Pid())
	switch {
	case h.killWhenStarted:
		h.kill()
	case h.stopped:
		h.signalStop()
	default: // the time in the start queue does not count for the hook
		h.due = h.in.Env.Loop.Now() + h.timeout
		h.timer.Reset(h.timeout)
		h.in.Save()
	}
}

// watch makes process the process of the current hook. storedName is the name of its pidfd in the
// descriptor store.
func (h *hookRun) watch(process host.Process, id pidfd.Identity, storedName string) {
	h.run.hadProcess = true
	h.process, h.id, h.fdName = process, id, storedName
	h.in.Env.Reaper.WatchChild(h.scope, h.process, storedName, h.reap)
}

func (h *hookRun) reap() {
	exit, ended := h.in.Env.Reaper.WaitStatus(h.process)
	if !ended || h.process == nil {
		return
	}
	h.in.clearUnkillable()
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
		h.killWhenStarted, h.awaitsStatus = false, false
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

// name returns the key and the command of the current hook.
func (h *hookRun) name() string { return h.key + " " + strings.Join(h.commands[h.at], " ") }

// stage returns what the current hook does.
func (h *hookRun) stage() string {
	if h.pending != nil {
		return h.name() + ": " + h.pending.Stage()
	}
	return "running " + h.name()
}

// timedOut handles the end of the hook's time-out.
func (h *hookRun) timedOut() {
	if h.pending != nil && h.pending.Queued() {
		h.timer.Reset(h.timeout) // the machine is slow, not the hook
		return
	}
	if h.process != nil && h.process.Ended() && !h.awaitsStatus {
		h.awaitsStatus = true // once: a tracer may keep it a zombie
		h.timer.Reset(ExitStatusTimeout)
		return
	}
	if h.pending != nil {
		h.failed = fmt.Errorf("%s: %s: no answer within start_timeout %s; %s", h.name(), h.pending.Stage(), h.timeout, host.HangHint)
	} else {
		h.failed = fmt.Errorf("%s: still running after start_timeout %s", h.name(), h.timeout)
	}
	h.kill()
}

// kill ends the current hook at once.
func (h *hookRun) kill() {
	h.killWhenStarted = true
	h.due = h.in.Env.Loop.Now()
	h.in.Save()
	h.killDue.Stop()
	h.killDue = h.scope.After(host.KillPause, h.reportUnkillable)
	if h.process == nil {
		h.cancel()
		return
	}
	if err := h.process.SignalGroup(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		h.in.Env.Log.Error("hook not killed", "instance", h.in.Name, "hook", h.key, "pid", h.process.Pid(), "error", err)
	}
}

// reportUnkillable reports a process that SIGKILL did not end, or a start that hangs.
func (h *hookRun) reportUnkillable() {
	if h.process == nil {
		if !h.cancel() { // the child may not have been scheduled at the first attempt
			h.in.markUnkillable(h.name() + ": " + host.DescribeHung(h.in.Env.Host, h.pending))
		}
		return
	}
	h.in.reportUnkillable(unix.SIGKILL, h.process.Pid())
}

// stop sends the current hook the stop signal, and SIGKILL after the stop time-out.
func (h *hookRun) stop() {
	if h.stopped {
		return
	}
	h.stopped = true
	if h.process == nil {
		h.cancel()
		return
	}
	h.signalStop()
}

func (h *hookRun) signalStop() {
	for _, sig := range []syscall.Signal{h.run.program.StopSignal, unix.SIGCONT} {
		if err := h.process.SignalGroup(sig); err != nil && !errors.Is(err, pidfd.ErrGone) {
			h.in.Env.Log.Error("hook not signalled", "instance", h.in.Name, "hook", h.key, "pid", h.process.Pid(), "error", err)
		}
	}
	timeout := h.run.program.StopTimeout
	if h.in.Env.Owner.Phase().Hurry {
		timeout = 0
	}
	h.due = min(h.due, h.in.Env.Loop.Now()+timeout)
	h.scope.After(timeout, h.kill)
	h.in.Save()
}

// cancel cancels a hook that has not started, and reports whether it did. If it is too late, the
// host kills the child before it executes the hook, and the result follows.
func (h *hookRun) cancel() bool {
	if h.pending == nil || !h.run.cancelPending(h.pending, h.name()+": ") {
		return false
	}
	err := h.failed
	if err == nil {
		err = errHookStopped
	}
	h.end(err)
	return true
}
