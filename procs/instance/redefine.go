package instance

import (
	"reflect"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/fsm"
)

// RunDefinition returns the definition of the run; nil without a run.
func (in *Instance) RunDefinition() *config.Program {
	if in.run == nil {
		return nil
	}
	return in.run.program
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
	in.Output.SetOptions()
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
	now := in.Env.Loop.Now()
	start := program.StartTimeout - r.program.StartTimeout
	stop := stopTimeout(program, r.main.drains) - stopTimeout(r.program, r.main.drains)
	if h := r.hook; h != nil { // hooks are identified by their index, so the lists must not change
		h.timeout += start
		if h.timer.Active() {
			h.due += start
			shift(h.timer, start, now)
		}
		own := program.Clone()
		own.PreStart, own.PostStop = r.program.PreStart, r.program.PostStop
		program = own
	}
	frozen := r.hook != nil
	if r.beside.InPostStart() {
		frozen = true
		own := program.Clone()
		own.PostStart = r.program.PostStart
		program = own
	}
	// A newline on a descriptor is awaited without an interval, and only once.
	ready := !reflect.DeepEqual(r.program.Ready, program.Ready) && (program.Ready == nil || program.Ready.FD == 0)
	ready = ready || launching(r) && r.program.PIDFile != program.PIDFile
	health := !reflect.DeepEqual(r.program.Health, program.Health)
	if r.program = program; !frozen { // else the definition is no configuration's
		r.config = in.Env.Config.Number()
	}
	if !r.spawn.awaitsKill {
		shift(r.spawn.timer, start, now)
	}
	if w := r.readiness; w != nil {
		w.Shift(start)
	}
	r.beside.Shift(start, stop)
	shift(r.reloadTimer, start, now)
	shift(r.ownStopTimer, stop, now)
	switch {
	case ready && r.readiness != nil:
		r.awaitReady(r.readiness.Deadline())
	case health && in.Machine.State() == fsm.Running:
		r.startMonitoring()
	}
	if r.stop.timer.Active() {
		r.stop.deadline += stop
		shift(r.stop.timer, stop, now)
	}
	if r.stop.timer != nil && !r.stop.timer.Active() && in.Machine.State() == fsm.Stopping && !r.stop.spared() {
		r.stop.arm(0) // it was spared
	}
	if t := r.teardown; t != nil && t.Redefine(stop) {
		r.stop.teardownDeadline += stop
	}
}

// shift moves a timer that is active. t may be nil.
func shift(t *loop.Timer, by, now time.Duration) {
	if t.Active() && by != 0 {
		t.Reset(t.Due() + by - now)
	}
}
