package instance

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/logs/segment"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/instance/launch"
	"superd/procs/probe"
)

// A readiness is the wait for a main process to become ready.
type readiness struct {
	in          *Instance
	run         *run
	scope       *loop.Scope
	deadline    time.Duration // end of the start time-out
	due         *loop.Timer   // StartTimeout
	condition   string        // what is awaited: "tcp 127.0.0.1:5432"
	lastResult  string        // result of the last check: "connection refused"; empty before
	probe       *probe.Probe  // nil without checks
	checkQueued bool          // the last check waited in the queue and did not begin
}

// spawnedMain steps the machine after the start of a main process.
func (r *run) spawnedMain() {
	in := r.in
	ready := r.program.Ready == nil && len(r.program.PostStart) == 0 && !launching(r)
	if ready {
		r.readyAt = in.Env.Loop.Now()
	}
	in.Apply(in.Machine.Spawned(ready, in.Conditions()))
}

// awaitReady waits for the readiness of the main process until deadline. It replaces a wait under
// way.
func (r *run) awaitReady(deadline time.Duration) {
	in := r.in
	if r.readiness != nil {
		r.readiness.scope.Close()
	}
	w := &readiness{in: in, run: r, scope: r.main.scope.Child(), deadline: deadline}
	r.readiness = w
	w.due = w.scope.After(max(deadline-in.Env.Loop.Now(), 0), w.onTimeout)
	switch p := r.program.Ready; {
	case launching(r):
		w.condition = "waits for the end of its command"
		if r.main.launch == commandEnded {
			w.awaitMain()
		}
	case p == nil: // of a forking program, or the definition no longer has a readiness condition
		w.scope.Post(w.becameReady)
	case p.Notify:
		w.condition = "READY=1 by sd_notify"
		if r.listener == nil {
			w.lastResult = "there is no notify socket"
		}
	case p.FD != 0:
		w.condition = fmt.Sprintf("a line on descriptor %d", p.FD)
		w.awaitNewline()
	case p.Line != "":
		w.condition = fmt.Sprintf("a line that matches %q", p.Line)
		w.awaitLine(p.Line)
	case p.TCP != "":
		w.condition = "tcp " + p.TCP
		w.check(in.Env.Host.CheckTCP(p.TCP), nil)
	case p.HTTP != "":
		w.condition = "http " + p.HTTP
		w.check(in.Env.Host.CheckHTTP(p.HTTP))
	default:
		w.condition = "exec " + strings.Join(p.Exec, " ")
		w.check(&execChecker{r, p.Exec}, nil)
	}
}

// check repeats a check until it passes.
func (w *readiness) check(c probe.Checker, err error) {
	if err != nil {
		w.setLastResult(err.Error())
		return
	}
	p := w.run.program.Ready
	o := probe.Options{Interval: p.Interval, Timeout: p.Timeout, Eager: true, Light: p.Exec == nil}
	w.probe = w.in.Env.Prober.Start(w.scope, c, o, func(result probe.Result) {
		w.checkQueued = result.Waited
		if result.Outcome == probe.Passed {
			w.becameReady()
			return
		}
		if result.Address != "" && result.Address == p.TCP { // stage already has the address
			w.setLastResult(result.Cause)
			return
		}
		w.setLastResult(result.Reason)
	})
}

// awaitNewline waits for a newline on the descriptor, the readiness protocol of s6.
func (w *readiness) awaitNewline() {
	fd := w.run.readyFD
	if fd < 0 {
		w.setLastResult("superd no longer has its other end")
		return
	}
	w.run.readyFD = -1
	err := w.in.Env.Host.AwaitNewline(w.scope, fd, func(err error) {
		if err != nil {
			w.setLastResult(err.Error())
			return
		}
		w.becameReady()
	})
	if err != nil {
		w.setLastResult(err.Error())
	}
}

// awaitLine waits for a line of output.
func (w *readiness) awaitLine(pattern string) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		w.setLastResult(err.Error())
		return
	}
	// the first stream with a match closes the scope
	for _, which := range w.in.Output.Collector.LogStreams() {
		var from *segment.Cursor // nil: nothing of the run was in the log when this superd started
		if begun, err := segment.ParseCursor(w.run.outputStart[which]); err == nil {
			from = &begun
		}
		w.in.Output.Collector.AwaitLine(w.scope, which, expression, from, func(_ string, err error) {
			if err != nil {
				w.setLastResult(err.Error())
				return
			}
			w.becameReady()
		})
	}
}

// awaitsLine reports whether a program becomes ready by a line of its output.
func awaitsLine(p *config.Program) bool { return p.Ready != nil && p.Ready.Line != "" }

// setLastResult records why the main process is not ready.
func (w *readiness) setLastResult(why string) {
	if w.lastResult != why {
		w.lastResult = why
		w.in.Env.Owner.Changed()
	}
}

// end stops the wait.
func (w *readiness) end() {
	w.scope.Close()
	r := w.run
	r.readiness = nil
	if r.readyFDName != "" {
		w.in.Env.FDs.Release(r.readyFDName)
		r.readyFDName = ""
	}
}

// becameReady handles the readiness of the main process: post_start hooks are next.
func (w *readiness) becameReady() {
	if len(w.run.program.PostStart) > 0 {
		w.end()
		w.run.ownBeside().PostStart(0)
		return
	}
	w.run.becameReady()
}

// becameReady makes the run ready.
func (r *run) becameReady() {
	in := r.in
	r.readyAt = in.Env.Loop.Now()
	in.Env.Log.Info("program ready", "instance", in.Name, "pid", r.main.process.Pid(), "after", words.Round(r.readyAt-r.main.startedAt))
	in.Apply(in.Machine.Ready(r.readyAt - r.main.startedAt))
}

// until returns the end of the start time-out; 0 unless readiness is awaited. w may be nil.
func (w *readiness) until() time.Duration {
	if w == nil {
		return 0
	}
	return w.deadline
}

// extend extends the start time-out to until, if that is later.
func (w *readiness) extend(until time.Duration) {
	if until > w.deadline {
		w.deadline = until
		w.due.Reset(until - w.in.Env.Loop.Now())
	}
}

// allowOneCheck extends the start time-out by the time of one check: the main process may have
// become ready while no superd ran.
func (w *readiness) allowOneCheck() {
	now := w.in.Env.Loop.Now()
	switch p := w.run.program.Ready; {
	case launching(w.run):
		w.extend(now + launch.Pause)
	case p != nil:
		w.extend(now + p.Timeout)
	}
}

// onTimeout handles the end of the start time-out.
func (w *readiness) onTimeout() {
	w.run.whenNotifyDrained(func() {
		switch {
		case w.run.readiness != w || w.due.Active(): // the report came just in time
		// The machine is slow, not the program
		case w.checkQueued || w.probe != nil && w.probe.Waits():
			w.extend(w.in.Env.Loop.Now() + w.run.program.StartTimeout)
			w.in.Save()
		case w.deadline > w.in.Env.Loop.Now(): // a reload has extended it
			w.due.Reset(w.deadline - w.in.Env.Loop.Now())
		default:
			w.fail()
		}
	})
}

// fail ends a run that did not become ready in time.
func (w *readiness) fail() {
	reason := fmt.Sprintf("not ready after %s: %s", words.Duration(words.Round(w.in.Env.Loop.Now()-w.run.main.startedAt)), w.stage())
	w.in.Env.Log.Warn("program not ready in time", "instance", w.in.Name, "pid", w.run.main.process.Pid(), "reason", reason)
	why := fsm.ReasonStartTimeout.With(reason)
	w.in.Apply(w.in.Machine.FailRun(fsm.StartTimeout, why))
}

// stage returns what is awaited, and the result of the last check.
func (w *readiness) stage() string {
	if w.lastResult == "" {
		return w.condition
	}
	return w.condition + ": " + w.lastResult
}
