package procs

import (
	"fmt"
	"time"

	"superd/loop"
)

// A readiness is the wait of a main process for its readiness.
type readiness struct {
	in      *instance
	run     *run
	scope   *loop.Scope
	due     *loop.Timer // StartDue
	waits   string      // what it waits for: "tcp 127.0.0.1:5432"
	lacking string      // what the last check said: "connection refused"; empty before
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

// awaitReady waits until the main process is ready, until the deadline at most.
func (in *instance) awaitReady(deadline time.Duration) {
	r := in.run
	w := &readiness{in: in, run: r, scope: r.life.Child()}
	r.readiness, r.startDeadline = w, deadline
	w.due = w.scope.After(max(deadline-in.sup.loop.Now(), 0), w.late)
}

// end stops waiting.
func (w *readiness) end() {
	w.scope.Close()
	w.run.readiness, w.run.startDeadline = nil, 0
}

// late is the end of the start time-out.
func (w *readiness) late() {
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

// attend looks after a main process that is ready.
func (in *instance) attend() {}

// resumeReadiness goes on waiting for the readiness of a main process, with what is left of its time.
func (a *adoption) resumeReadiness(r *run) {
	if a.in.machine.state == Starting {
		a.in.awaitReady(a.saved.Run.StartDeadline)
	}
}
