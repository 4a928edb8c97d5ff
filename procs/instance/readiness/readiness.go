// Package readiness waits for a main process to become ready.
//
// A [Wait] owns the start time-out and what looks for the readiness condition: a check, a watch of
// the ready descriptor, a follower of the log, or the search for the main process of a forking
// program. Its scope ends them all. Messages of the program come to the run, which then ends the
// wait. It lives on the loop.
package readiness

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/logs"
	"superd/logs/segment"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/launch"
	"superd/procs/probe"
)

// Options say what is awaited.
type Options struct {
	Instance  string
	Run       Run
	Tree      host.Tree
	Scope     *loop.Scope   // ends with the main process; closed at the end
	StartedAt time.Duration // start of the main process
	Launching bool          // the main process of a forking program is not known yet
	Listens   bool          // there is a notify socket
	Output    *logs.Collector
	// By [logs.Stream]: the [segment.Cursor] at which the output of the run begins; empty: nothing
	// of the run was in the log when this superd started
	OutputStart [2]string
	Host        host.Host
	Prober      *probe.Prober
	Log         *slog.Logger
}

// A Run is what a wait needs of its run.
type Run interface {
	launch.Run
	// Program returns its definition.
	Program() *config.Program
	// Main returns the main process.
	Main() host.Process
	// TakeReadyFD returns the read end of the pipe on which the main process reports readiness, and
	// gives it away; -1: none.
	TakeReadyFD() int
	// TCPChecker and HTTPChecker return a check of the address that is the value of a key, and that
	// address.
	TCPChecker(key, template string) (address string, c probe.Checker)
	HTTPChecker(key, template string) (address string, c probe.Checker)
	// Checker returns a check by a command.
	Checker(command []string) probe.Checker
	// WhenNotifyDrained calls f when all notifications sent by now are read.
	WhenNotifyDrained(f func())

	// Save queues the instance's record.
	Save()
	// Changed is called when something that a status shows has changed.
	Changed()
	// ConditionMet is called when the main process meets the readiness condition.
	ConditionMet()
	// Fail fails the run.
	Fail(e fsm.Event, reason fsm.Reason)
}

// A Wait is a wait for the readiness of a main process.
type Wait struct {
	Options
	deadline    time.Duration // end of the start time-out
	due         *loop.Timer   // StartTimeout
	condition   string        // what is awaited: "tcp 127.0.0.1:5432"
	address     string        // that a TCP check connects to; empty without one
	lastResult  string        // result of the last check: "connection refused"; empty before
	probe       *probe.Probe  // nil without checks
	checkQueued bool          // the last check waited in the queue and did not begin
}

// Start starts a wait until deadline. It calls neither [Run.ConditionMet] nor [Run.Fail] before it
// has returned.
func Start(o Options, deadline time.Duration) *Wait {
	w := &Wait{Options: o, deadline: deadline}
	w.due = w.Scope.After(max(deadline-w.now(), 0), w.onTimeout)
	switch p := o.Run.Program().Ready; {
	case o.Launching:
		w.condition = "waits for the end of its command"
	case p == nil: // of a forking program, or the definition no longer has a readiness condition
		w.Scope.Post(o.Run.ConditionMet)
	case p.Notify:
		w.condition = "READY=1 by sd_notify"
		if !o.Listens {
			w.lastResult = "there is no notify socket"
		}
	case p.FD != 0:
		w.condition = fmt.Sprintf("a line on descriptor %d", p.FD)
		w.awaitNewline()
	case p.Line != "":
		w.condition = fmt.Sprintf("a line that matches %q", p.Line)
		w.awaitLine(p.Line)
	case p.TCP != "":
		address, c := o.Run.TCPChecker("ready.tcp", p.TCP)
		w.condition, w.address = "tcp "+address, address
		w.check(c)
	case p.HTTP != "":
		address, c := o.Run.HTTPChecker("ready.http", p.HTTP)
		w.condition = "http " + address
		w.check(c)
	default:
		w.condition = "exec " + strings.Join(p.Exec, " ")
		w.check(o.Run.Checker(p.Exec))
	}
	return w
}

// End stops the wait.
func (w *Wait) End() { w.Scope.Close() }

// Deadline returns the end of the start time-out; 0 without a wait. w may be nil.
func (w *Wait) Deadline() time.Duration {
	if w == nil {
		return 0
	}
	return w.deadline
}

// Extend extends the start time-out to until, if that is later.
func (w *Wait) Extend(until time.Duration) {
	if until > w.deadline {
		w.deadline = until
		w.due.Reset(until - w.now())
	}
}

// Shift moves the end of the start time-out.
func (w *Wait) Shift(by time.Duration) {
	w.deadline += by
	if w.due.Active() && by != 0 {
		w.due.Reset(w.due.Due() + by - w.now())
	}
}

// AllowOneCheck extends the start time-out by the time of one check: the main process may have
// become ready while no superd ran.
func (w *Wait) AllowOneCheck() {
	switch p := w.Run.Program().Ready; {
	case w.Launching:
		w.Extend(w.now() + launch.Pause)
	case p != nil:
		w.Extend(w.now() + p.Timeout)
	}
}

// SearchMain searches for the main process of a forking program, whose command has ended.
func (w *Wait) SearchMain() {
	w.condition = "waits for its main process"
	if file := w.Run.Program().PIDFile; file != "" {
		w.condition = "waits for " + file
		if path, _, err := w.Run.PIDFile(); err == nil {
			w.condition = "waits for " + path
		}
	}
	launch.Start(launch.Options{
		Run: w.Run, Host: w.Host, Tree: w.Tree, Scope: w.Scope, OnWait: w.setLastResult,
	})
}

// Stage returns what is awaited, and the result of the last check.
func (w *Wait) Stage() string {
	if w.lastResult == "" {
		return w.condition
	}
	return w.condition + ": " + w.lastResult
}

// now returns the time on the loop's clock.
func (w *Wait) now() time.Duration { return w.Scope.Loop().Now() }

// check repeats a check until it passes.
func (w *Wait) check(c probe.Checker) {
	p := w.Run.Program().Ready
	o := probe.Options{Interval: p.Interval, Timeout: p.Timeout, Eager: true, Light: p.Exec == nil}
	w.probe = w.Prober.Start(w.Scope, c, o, func(result probe.Result) {
		w.checkQueued = result.Waited
		if result.Outcome == probe.Passed {
			w.Run.ConditionMet()
			return
		}
		if result.Address != "" && result.Address == w.address { // the condition has the address
			w.setLastResult(result.Cause)
			return
		}
		w.setLastResult(result.Reason)
	})
}

// awaitNewline waits for a newline on the descriptor, the readiness protocol of s6.
func (w *Wait) awaitNewline() {
	fd := w.Run.TakeReadyFD()
	if fd < 0 {
		w.setLastResult("superd no longer has its other end")
		return
	}
	err := w.Host.AwaitNewline(w.Scope, fd, func(err error) {
		if err != nil {
			w.setLastResult(err.Error())
			return
		}
		w.Run.ConditionMet()
	})
	if err != nil {
		w.setLastResult(err.Error())
	}
}

// awaitLine waits for a line of output.
func (w *Wait) awaitLine(pattern string) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		w.setLastResult(err.Error())
		return
	}
	// the first stream with a match closes the scope
	for _, which := range w.Output.LogStreams() {
		var from *segment.Cursor
		if begun, err := segment.ParseCursor(w.OutputStart[which]); err == nil {
			from = &begun
		}
		w.Output.AwaitLine(w.Scope, which, expression, from, func(_ string, err error) {
			if err != nil {
				w.setLastResult(err.Error())
				return
			}
			w.Run.ConditionMet()
		})
	}
}

// setLastResult records why the main process is not ready.
func (w *Wait) setLastResult(why string) {
	if w.lastResult != why {
		w.lastResult = why
		w.Run.Changed()
	}
}

// onTimeout handles the end of the start time-out.
func (w *Wait) onTimeout() {
	w.Run.WhenNotifyDrained(func() {
		switch {
		case w.Scope.Closed() || w.due.Active(): // the report came just in time
		// The machine is slow, not the program
		case w.checkQueued || w.probe != nil && w.probe.Waits():
			w.Extend(w.now() + w.Run.Program().StartTimeout)
			w.Run.Save()
		case w.deadline > w.now(): // a reload has extended it
			w.due.Reset(w.deadline - w.now())
		default:
			w.fail()
		}
	})
}

// fail ends a run that did not become ready in time.
func (w *Wait) fail() {
	after := words.Duration(words.Round(w.now() - w.StartedAt))
	reason := fmt.Sprintf("not ready after %s: %s", after, w.Stage())
	w.Log.Warn("program not ready in time", "instance", w.Instance, "pid", w.Run.Main().Pid(), "reason", reason)
	w.Run.Fail(fsm.StartTimeout, fsm.ReasonStartTimeout.With(reason))
}
