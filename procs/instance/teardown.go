package instance

import (
	"time"

	"superd/config"
	"superd/procs/instance/teardown"
)

// tearDown begins the teardown of the run.
func (r *run) tearDown() {
	now := r.in.Env.Loop.Now()
	deadline := r.stop.deadline
	if deadline == 0 {
		deadline = now + r.program.StopTimeout
	}
	r.beside.BoundStopCommand(deadline)
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
	if r.beside.WhenExecuted(func() { r.killLeftovers(r.stop.teardownDeadline) }) {
		return // what was executed may have left processes
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
	if sparesAll(r) {
		r.scope.Post(func() { r.leftoversKilled() })
		return
	}
	r.teardown = teardown.Start(teardown.Options{
		Instance: in.Name, Run: (*port)(r), Tree: in.Tree, Scope: r.scope.Child(), Log: in.Env.Log,
	}, max(deadline-in.Env.Loop.Now(), 0), in.Env.Owner.Phase().Hurry || r.program.KillMode == config.KillMixed)
}
