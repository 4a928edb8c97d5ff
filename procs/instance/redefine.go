package instance

import (
	"reflect"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/fsm"
)

// RestartsFor reports whether the instance has to be restarted for a change of its program.
func (in *Instance) RestartsFor(c *config.Change) bool {
	if in.run == nil {
		return c.Restarts()
	}
	diff := config.CompareProgram(in.run.program, c.Program)
	return diff.Restarts()
}

// Redefined applies the definition that the instance has got in place of before. restarts reports
// whether it has to be restarted, and rolls whether a rolling restart does that later.
func (in *Instance) Redefined(before *config.Program, restarts, rolls bool) {
	in.Machine.Redefine(in.Program, restarts && !rolls)
	defer in.Save()
	defer in.UpdateSchedule()
	if in.run != nil && !restarts {
		in.run.change(in.Program)
	}
	in.Output.setOptions()
	if in.Quarantined() {
		return
	}
	change := fsm.Change{Before: before, Restarts: restarts, Rolls: rolls, Exit: in.LastExit.exit()}
	if t, ok := in.Machine.Reevaluate(change, in.Conditions(), in.Env.RNG); ok {
		in.Apply(t)
	}
}

// change gives the current run a definition that needs no restart. It moves the run's deadlines
// by the difference of the time-outs.
func (r *run) change(program *config.Program) {
	in := r.in
	shift := func(t *loop.Timer, by time.Duration) {
		if t.Active() && by != 0 {
			t.Reset(t.Due() + by - in.Env.Loop.Now())
		}
	}
	start := program.StartTimeout - r.program.StartTimeout
	stop := stopTimeout(program, r.drains) - stopTimeout(r.program, r.drains)
	if h := r.hook; h != nil { // hooks are identified by their index, so the lists must not change
		h.timeout += start
		if h.timer.Active() {
			h.due += start
			shift(h.timer, start)
		}
		own := program.Clone()
		own.PreStart, own.PostStop = r.program.PreStart, r.program.PostStop
		program = own
	}
	frozen := r.hook != nil
	if b := r.beside; b != nil && b.hook > 0 {
		frozen = true
		b.postStart.shift(start)
		own := program.Clone()
		own.PostStart = r.program.PostStart
		program = own
	}
	// A newline on a descriptor is awaited without an interval, and only once.
	ready := !reflect.DeepEqual(r.program.Ready, program.Ready) && (program.Ready == nil || program.Ready.FD == 0)
	health := !reflect.DeepEqual(r.program.Health, program.Health)
	if r.program = program; !frozen { // else the definition is no configuration's
		r.config = in.Env.Config.Number()
	}
	if !r.spawn.awaitsKill {
		shift(r.spawn.timer, start)
	}
	if w := r.readiness; w != nil {
		w.deadline += start
		shift(w.due, start)
	}
	shift(r.beside.current().confirmation(), start)
	shift(r.reloadTimer, start)
	shift(r.ownStopTimer, stop)
	switch {
	case ready && r.readiness != nil:
		r.awaitReady(r.readiness.deadline)
	case health && in.Machine.State() == fsm.Running:
		r.startMonitoring()
	}
	if b := r.beside; b != nil {
		b.stopCommand.shift(stop)
	}
	if r.stop.timer.Active() {
		r.stop.deadline += stop
		shift(r.stop.timer, stop)
	}
	if r.stop.timer != nil && !r.stop.timer.Active() && in.Machine.State() == fsm.Stopping && !r.stop.spared() {
		r.stop.arm(0) // it was spared
	}
	if t := r.teardown; t != nil {
		switch {
		case t.due.Active():
			r.stop.teardownDeadline += stop
			shift(t.due, stop)
		case t.overdue && !r.stop.spared():
			r.scope.Post(t.kill)
		}
	}
}
