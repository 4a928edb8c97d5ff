package procs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/probe"
)

// A readiness is the wait of a main process for its readiness.
type readiness struct {
	in      *instance
	run     *run
	scope   *loop.Scope
	due     *loop.Timer  // StartDue
	waits   string       // what it waits for: "tcp 127.0.0.1:5432"
	lacking string       // what the last check said: "connection refused"; empty before
	probe   *probe.Probe // nil unless it is checked
	waited  bool         // the last check has waited for its turn in vain
}

// ready reports whether the instance does what it is there for: then who requires it may start.
func (in *instance) ready() bool { return in.machine.state == Running }

// stable is how long the run has been ready, 0 if it never was.
func (r *run) stable(now time.Duration) time.Duration {
	if r.readyAt == 0 {
		return 0
	}
	return now - r.readyAt
}

// spawnedMain tells the machine of a main process.
func (in *instance) spawnedMain(r *run) {
	ready := r.program.Ready == nil
	if ready {
		r.readyAt = r.startedAt
	}
	in.do(func() []Effect { return in.machine.spawned(ready) })
}

// awaitReady waits until the main process is ready, until the deadline at most. It may be called again.
func (in *instance) awaitReady(deadline time.Duration) {
	r := in.run
	if r.readiness != nil {
		r.readiness.scope.Close()
	}
	w := &readiness{in: in, run: r, scope: r.life.Child()}
	r.readiness, r.startDeadline = w, deadline
	w.due = w.scope.After(max(deadline-in.sup.loop.Now(), 0), w.late)
	switch p := r.program.Ready; {
	case p == nil: // a superd before has known of one
		w.scope.Post(w.became)
	case p.Notify:
		w.waits = "READY=1 by sd_notify"
		if r.listener == nil {
			w.lacking = "there is no notify socket"
		}
	case p.FD != 0:
		w.waits = fmt.Sprintf("a line on descriptor %d", p.FD)
		w.awaitNewline()
	case p.Line != "":
		w.waits = fmt.Sprintf("a line that matches %q", p.Line)
		w.awaitLine(p.Line)
	case p.TCP != "":
		w.waits = "tcp " + p.TCP
		w.check(in.sup.system.CheckTCP(p.TCP), nil)
	case p.HTTP != "":
		w.waits = "http " + p.HTTP
		w.check(in.sup.system.CheckHTTP(p.HTTP))
	default:
		w.waits = "exec " + strings.Join(p.Exec, " ")
		w.check(&execChecker{in, r, p.Exec}, nil)
	}
}

// check tries again and again, until it passes.
func (w *readiness) check(c probe.Checker, err error) {
	if err != nil {
		w.lacks(err.Error())
		return
	}
	p := w.run.program.Ready
	o := probe.Options{Interval: p.Interval, Timeout: p.Timeout, Eager: true, Light: p.Exec == nil}
	w.probe = w.in.sup.prober.Start(w.scope, c, o, func(result probe.Result) {
		w.waited = result.Waited
		if result.Outcome == probe.Passed {
			w.became()
			return
		}
		w.lacks(strings.TrimPrefix(result.Reason, "connect to "+p.TCP+": "))
	})
}

// awaitNewline waits for the newline that s6 programs write.
func (w *readiness) awaitNewline() {
	fd := w.run.readyFD
	if fd < 0 {
		w.lacks("superd has lost the other end of it")
		return
	}
	w.run.readyFD = -1
	err := w.in.sup.system.AwaitNewline(w.scope, fd, func(err error) {
		if err != nil {
			w.lacks(err.Error())
			return
		}
		w.became()
	})
	if err != nil {
		w.lacks(err.Error())
	}
}

// awaitLine waits for a line of output.
func (w *readiness) awaitLine(pattern string) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		w.lacks(err.Error())
		return
	}
	for _, which := range w.in.capture.Apart() { // the first one that has it closes the scope
		var from *logs.Cursor // nil: nothing of it was in the log when this superd came
		if begun, err := logs.ParseCursor(w.run.printsFrom[which]); err == nil {
			from = &begun
		}
		w.in.capture.AwaitLine(w.scope, which, expression, from, func(_ string, err error) {
			if err != nil {
				w.lacks(err.Error())
				return
			}
			w.became()
		})
	}
}

// awaitsLine reports whether a program tells that it is ready by a line of its output.
func awaitsLine(p *config.Program) bool { return p.Ready != nil && p.Ready.Line != "" }

// placeRun saves where the output of a run begins in its log. What it prints waits for that: so the next superd finds the line by which it tells
// that it is ready, also if this one has put that into the log and is killed before it has heard of it. From any goroutine.
func (s *Supervisor) placeRun(at logs.RunBegin, saved func()) {
	s.scope.Post(func() {
		if in := s.byName[at.Instance]; in != nil && in.run != nil && in.run.invocationID == at.Run {
			in.run.tells().printsFrom[at.Stream] = at.At.String()
			in.save()
		}
		s.writeEvents()
		s.journal.Flush(saved)
	})
}

// lacks notes why readiness has not come.
func (w *readiness) lacks(why string) {
	if w.lacking != why {
		w.lacking = why
		w.in.sup.changed()
	}
}

// end stops waiting.
func (w *readiness) end() {
	w.scope.Close()
	r := w.run
	r.readiness, r.startDeadline = nil, 0
	if r.readyKept != "" {
		w.in.sup.letGo(r.readyKept)
		r.readyKept = ""
	}
}

// became notes that the main process is ready.
func (w *readiness) became() {
	in, r := w.in, w.run
	r.readyAt = in.sup.loop.Now()
	in.sup.log.Info("program ready", "instance", in.name, "pid", r.process.Pid(), "after", roundDuration(r.readyAt-r.startedAt))
	in.do(func() []Effect { return in.machine.ready(r.readyAt - r.startedAt) })
}

// extend lets the start take until then at least.
func (w *readiness) extend(until time.Duration) {
	if until > w.run.startDeadline {
		w.run.startDeadline = until
		w.due.Reset(until - w.in.sup.loop.Now())
	}
}

// catchUp gives time for a look: the main process may have become ready while no superd was there.
func (w *readiness) catchUp() {
	if p := w.run.program.Ready; p != nil {
		w.extend(w.in.sup.loop.Now() + p.Timeout)
	}
}

// late is the end of the start time-out.
func (w *readiness) late() {
	w.run.heard(func() {
		switch {
		case w.run.readiness != w || w.due.Active(): // it has told just in time
		case w.waited || w.probe != nil && w.probe.Waits(): // the machine is slow, not the program
			w.extend(w.in.sup.loop.Now() + w.run.program.StartTimeout)
			w.in.save()
		default:
			w.giveUp()
		}
	})
}

// giveUp ends a run that has not become ready in time.
func (w *readiness) giveUp() {
	reason := fmt.Sprintf("not ready after %s: %s", roundDuration(w.in.sup.loop.Now()-w.run.startedAt), w.stage())
	w.in.sup.log.Warn("program not ready in time", "instance", w.in.name, "pid", w.run.process.Pid(), "reason", reason)
	w.in.do(func() []Effect { return w.in.machine.condemn(StartDue, reason) })
}

// stage tells what is awaited, and why it has not come.
func (w *readiness) stage() string {
	if w.lacking == "" {
		return w.waits
	}
	return w.waits + ": " + w.lacking
}

// resumeReadiness goes on waiting for the readiness of a main process, with what is left of its time, or looking after one that is ready.
func (a *adoption) resumeReadiness(r *run) {
	switch a.in.machine.state {
	case Starting:
		a.in.awaitReady(a.saved.Run.StartDeadline)
		r.readiness.catchUp()
	case Running:
		a.in.attend()
	}
}
