package procs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/logs"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/probe"
)

// A readiness is the wait for a main process to become ready.
type readiness struct {
	in          *instance
	run         *run
	scope       *loop.Scope
	due         *loop.Timer  // StartTimeout
	condition   string       // what is awaited: "tcp 127.0.0.1:5432"
	lastResult  string       // result of the last check: "connection refused"; empty before
	probe       *probe.Probe // nil without checks
	checkQueued bool         // the last check waited in the queue and did not begin
}

// ready reports whether the instance is ready: its dependents may start.
func (in *instance) ready() bool { return in.machine.State() == fsm.Running }

// stable returns how long the run has been ready, 0 if it never was.
func (r *run) stable(now time.Duration) time.Duration {
	if r.readyAt == 0 {
		return 0
	}
	return now - r.readyAt
}

// spawnedMain steps the machine after the start of a main process.
func (in *instance) spawnedMain(r *run) {
	ready := r.program.Ready == nil
	if ready {
		r.readyAt = in.sup.loop.Now()
	}
	in.apply(in.machine.Spawned(ready, in.conditions()))
}

// awaitReady waits for the readiness of the main process until deadline. It replaces a wait under
// way.
func (in *instance) awaitReady(deadline time.Duration) {
	r := in.run
	if r.readiness != nil {
		r.readiness.scope.Close()
	}
	w := &readiness{in: in, run: r, scope: r.mainScope.Child()}
	r.readiness, r.startDeadline = w, deadline
	w.due = w.scope.After(max(deadline-in.sup.loop.Now(), 0), w.onTimeout)
	switch p := r.program.Ready; {
	case p == nil: // the definition no longer has a readiness condition
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
		w.check(in.sup.host.CheckTCP(p.TCP), nil)
	case p.HTTP != "":
		w.condition = "http " + p.HTTP
		w.check(in.sup.host.CheckHTTP(p.HTTP))
	default:
		w.condition = "exec " + strings.Join(p.Exec, " ")
		w.check(&execChecker{in, r, p.Exec}, nil)
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
	w.probe = w.in.sup.prober.Start(w.scope, c, o, func(result probe.Result) {
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
	err := w.in.sup.host.AwaitNewline(w.scope, fd, func(err error) {
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
	for _, which := range w.in.collector.LogStreams() {
		var from *logs.Cursor // nil: nothing of the run was in the log when this superd started
		if begun, err := logs.ParseCursor(w.run.outputStart[which]); err == nil {
			from = &begun
		}
		w.in.collector.AwaitLine(w.scope, which, expression, from, func(_ string, err error) {
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

// saveOutputStart saves where the output of a run begins in its log, then calls saved. The output
// is written only after that. So a successor finds the line that reports readiness even if this
// superd was killed after it wrote the line and before it read it. It may be called from any
// goroutine.
func (s *Supervisor) saveOutputStart(at logs.RunStart, saved func()) {
	s.scope.Post(func() {
		if in := s.registry.byName[at.Instance]; in != nil && in.run != nil && in.run.invocationID == at.Run {
			in.run.ownNotifyState().outputStart[at.Stream] = at.At.String()
			in.save()
		}
		s.recorder.writeEvents()
		s.recorder.journal.Flush(func(error) { saved() })
	})
}

// setLastResult records why the main process is not ready.
func (w *readiness) setLastResult(why string) {
	if w.lastResult != why {
		w.lastResult = why
		w.in.sup.subscriptions.changed()
	}
}

// end stops the wait.
func (w *readiness) end() {
	w.scope.Close()
	r := w.run
	r.readiness, r.startDeadline = nil, 0
	if r.readyFDName != "" {
		w.in.sup.fds.release(r.readyFDName)
		r.readyFDName = ""
	}
}

// becameReady handles the readiness of the main process.
func (w *readiness) becameReady() {
	in, r := w.in, w.run
	r.readyAt = in.sup.loop.Now()
	in.sup.log.Info("program ready", "instance", in.name, "pid", r.process.Pid(), "after", words.Round(r.readyAt-r.startedAt))
	in.apply(in.machine.Ready(r.readyAt - r.startedAt))
}

// extend extends the start time-out to until, if that is later.
func (w *readiness) extend(until time.Duration) {
	if until > w.run.startDeadline {
		w.run.startDeadline = until
		w.due.Reset(until - w.in.sup.loop.Now())
	}
}

// allowOneCheck extends the start time-out by the time of one check: the main process may have
// become ready while no superd ran.
func (w *readiness) allowOneCheck() {
	if p := w.run.program.Ready; p != nil {
		w.extend(w.in.sup.loop.Now() + p.Timeout)
	}
}

// onTimeout handles the end of the start time-out.
func (w *readiness) onTimeout() {
	w.run.whenNotifyDrained(func() {
		switch {
		case w.run.readiness != w || w.due.Active(): // the report came just in time
		// The machine is slow, not the program
		case w.checkQueued || w.probe != nil && w.probe.Waits():
			w.extend(w.in.sup.loop.Now() + w.run.program.StartTimeout)
			w.in.save()
		case w.run.startDeadline > w.in.sup.loop.Now(): // a reload has extended it
			w.due.Reset(w.run.startDeadline - w.in.sup.loop.Now())
		default:
			w.fail()
		}
	})
}

// fail ends a run that did not become ready in time.
func (w *readiness) fail() {
	reason := fmt.Sprintf("not ready after %s: %s", words.Duration(words.Round(w.in.sup.loop.Now()-w.run.startedAt)), w.stage())
	w.in.sup.log.Warn("program not ready in time", "instance", w.in.name, "pid", w.run.process.Pid(), "reason", reason)
	why := fsm.ReasonStartTimeout.With(reason)
	w.in.apply(w.in.machine.FailRun(fsm.StartTimeout, why))
}

// stage returns what is awaited, and the result of the last check.
func (w *readiness) stage() string {
	if w.lastResult == "" {
		return w.condition
	}
	return w.condition + ": " + w.lastResult
}

// resumeReadiness continues the wait of a recovered run for its readiness, with the rest of its
// time, or the monitoring of a ready one.
func (a *recoveredInstance) resumeReadiness(r *run) {
	switch a.in.machine.State() {
	case fsm.Starting:
		a.in.awaitReady(a.saved.Run.StartDeadline)
		r.readiness.allowOneCheck()
	case fsm.Running:
		a.in.startMonitoring()
	}
}
