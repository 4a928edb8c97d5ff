package procs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/instance"
	"superd/procs/reconcile"
	"superd/procs/rolling"
	"superd/procs/snapshot"
	"superd/procs/subscriptions"
)

// rolls has the rolling restarts under way. [rolling.Roll] decides; this part looks at the
// instances, restarts them, and lets replicas have as many extra ones as a roll needs.
type rolls struct {
	*platform
	registry      *registry
	recorder      *handover.Recorder
	config        *configState
	conflicts     *conflicts
	replicas      *replicas
	reconciler    *reconcile.Queue
	shutdown      *shutdown
	subscriptions *subscriptions.Set

	all    map[string]*roll  // by program
	failed map[string]string // why the last one ended, by program, while former definitions run
	posted bool              // a step of all of them is posted
}

// A roll is a rolling restart of a program.
type roll struct {
	*rolling.Roll
	waiting []rollWaiter
	timer   *loop.Timer // ends the pause of a replica; nil without one
	// When replicas that wait for their start began to do so, or were taken over
	waits  map[string]time.Duration
	looked time.Duration // when it took its last step
}

// A rollWaiter waits until a roll is over, or waits for the operator.
type rollWaiter struct {
	undoes bool // it has requested the end of the roll
	done   func([]CommandResult)
}

// extras returns how many extra replicas the program has because of its roll.
func (r *rolls) extras(program string) int {
	if o := r.all[program]; o != nil {
		return o.Extras()
	}
	return 0
}

// begin begins the roll of a program, for the actor by, or begins it again. It is to replace these
// runs, by instance. It is recorded before the caller changes the instances.
func (r *rolls) begin(program *config.Program, by fsm.Actor, runs map[string]string, extra int, canary bool) *roll {
	o := r.all[program.Name]
	if o != nil {
		o.Restart(runs)
		o.waits = nil
		o.Extra = max(o.Extra, extra)
	} else {
		o = &roll{Roll: rolling.New(runs, extra, canary)}
		r.all[program.Name] = o
	}
	delete(r.failed, program.Name)
	r.Log.Info("rolling restart begun", "program", program.Name, "replicas", len(runs), "extra", o.Extra, "by", by.String())
	r.record(program.Name, eventlog.Begun, fsm.ReasonRollBegun.With(fmt.Sprintf("%s, %d extra", words.Plural(len(runs), "replica"), o.Extra)), by)
	r.save(program.Name, o)
	r.post()
	return o
}

func (r *rolls) record(program, state string, why fsm.Reason, by fsm.Actor) {
	e := eventlog.Event{Kind: eventlog.Roll, Program: program, State: state}
	if by.Kind != fsm.ActorNone {
		e.By, e.ByKind = by.String(), by.Kind.String()
	}
	r.recorder.Record(eventlog.WithReason(e, why))
}

func (r *rolls) save(program string, o *roll) {
	r.recorder.Queue(snapshot.RollKey(program), o.Record())
}

// restore restores the rolls of programs that the newest configuration has.
func (r *rolls) restore(saved *snapshot.Snapshot) {
	newest := cmp.Or(saved.Config(), r.config.active)
	for name, v := range saved.Rolls {
		switch {
		case saved.Superd.Ended || newest.Program(name) == nil:
			r.recorder.Queue(snapshot.RollKey(name), nil)
		case v.Stage == snapshot.RollOver:
			r.failed[name] = v.Failure
		default:
			r.all[name] = &roll{Roll: rolling.Resume(v)}
			r.post()
		}
	}
}

// drop ends the roll of a program that is removed.
func (r *rolls) drop(program string) {
	if o := r.all[program]; o != nil {
		o.Failure = "the program was removed"
		r.end(program, o)
	}
	r.forgetFailure(program)
}

// end forgets a roll that is over.
func (r *rolls) end(program string, o *roll) {
	o.timer.Stop()
	delete(r.all, program)
	r.recorder.Queue(snapshot.RollKey(program), nil)
	state, why := eventlog.Over, fsm.Reason{Kind: fsm.ReasonRolled}
	if o.Failure != "" {
		why = fsm.ReasonRollFailed.With(o.Failure)
		if slices.ContainsFunc(r.registry.of(program), isFormer) {
			r.failed[program] = o.Failure
			r.recorder.Queue(snapshot.RollKey(program), snapshot.Roll{Stage: snapshot.RollOver, Failure: o.Failure})
		}
	}
	r.Log.Info("rolling restart over", "program", program, "result", why.String())
	r.record(program, state, why, fsm.Actor{})
	r.answer(program, o)
}

// answer answers who waits for the roll, when what it did is recorded.
func (r *rolls) answer(program string, o *roll) {
	r.answerWith(program, o, r.results(program, o, o.Failure))
}

func (r *rolls) answerWith(program string, o *roll, results []CommandResult) {
	waiting := o.waiting
	o.waiting = nil
	for _, w := range waiting {
		all := slices.Clone(results)
		if w.undoes {
			all = []CommandResult{{Name: program, OK: true, State: fsm.Stopped, Message: o.Undone()}}
		}
		r.recorder.AfterSaving(func(unrecorded error) {
			for i := range all {
				if unrecorded != nil {
					all[i].MarkUnrecorded(unrecorded)
				}
			}
			w.done(all)
		})
	}
}

// relink updates the nodes of a program's instances in the graph, and what each conflicts with,
// after a change of its number of replicas: an extra one may have become an ordinary one, or the
// reverse.
func (r *rolls) relink(program string) {
	if r.all[program] == nil {
		return
	}
	for _, in := range r.registry.of(program) {
		in.Node.Relink()
		r.conflicts.find(in)
	}
	r.post() // its limits may be others
}

// isFormer reports whether an instance runs with a definition that a restart would replace.
func isFormer(in *instance.Instance) bool {
	run, c := in.RunDefinition(), config.Change{Program: in.Program}
	return run != nil && run != in.Program && c.RestartsRun(run)
}

// formerText says why an instance runs with its former definition; empty if it does not.
func (r *rolls) formerText(in *instance.Instance) string {
	program := in.Program.Name
	if r.failed[program] == "" || !isFormer(in) {
		return ""
	}
	return fmt.Sprintf("runs with its former definition, since the rolling restart ended: %s; `superd ctl restart --rolling %s` tries again", r.failed[program], program)
}

func (r *rolls) forgetFailure(program string) {
	if r.failed[program] != "" {
		delete(r.failed, program)
		r.recorder.Queue(snapshot.RollKey(program), nil)
	}
}

// changed is called when something of an instance has changed, or it is removed.
func (r *rolls) changed(in *instance.Instance) {
	if len(r.all) > 0 && r.all[in.Program.Name] != nil {
		r.post()
	}
	if len(r.failed) > 0 && !slices.ContainsFunc(r.registry.of(in.Program.Name), isFormer) {
		r.forgetFailure(in.Program.Name)
	}
}

// post lets all rolls take their next step after the turn's other work.
func (r *rolls) post() {
	if !r.posted {
		r.posted = true
		r.Scope.Post(r.step)
	}
}

// step takes the next step of all rolls. While instances are reconciled it waits: only then is it
// known which of them go on.
func (r *rolls) step() {
	r.posted = false
	if r.shutdown.begun {
		for name, o := range r.all { // a successor may go on, but no one waits for that
			r.answerWith(name, o, r.results(name, o, "superd is shutting down"))
		}
		return
	}
	if r.reconciler.Busy() {
		r.post()
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.all)) {
		r.stepOf(name, r.all[name])
	}
}

func (r *rolls) stepOf(name string, o *roll) {
	program := r.config.active.Program(name)
	if program == nil {
		r.drop(name)
		return
	}
	if o.Extras() > 0 {
		by := fsm.By(fsm.ActorRoll)
		r.replicas.createMissing(program, &fsm.Target{Up: true, By: by})
	}
	for _, in := range r.registry.of(name) {
		// Whether it conflicts with others depends on which of them are extra
		if in.Membership.Conflict != nil {
			r.conflicts.find(in)
			r.reconciler.Enqueue(in)
		}
	}
	before := o.Record()
	all := r.look(program)
	o.measure(all, r.Loop.Now())
	restart, wait := o.Next(all, r.limits(program, o))
	for _, instance := range restart {
		in := r.registry.named(instance)
		in.Apply(in.Machine.WantRestart(fsm.By(fsm.ActorRoll), true, in.Conditions()))
		r.reconciler.StartWithRequirements(in)
	}
	o.timer.Stop()
	if wait > 0 {
		o.timer = r.Scope.After(wait, r.post)
	}
	if !o.Is(before) {
		r.advanced(program, o, before.Stage)
	}
	if o.Stage == snapshot.RollEnds && o.Done(r.look(program)) {
		r.end(name, o)
	}
}

// advanced records a roll that has taken a step, and does what follows from its stage.
func (r *rolls) advanced(program *config.Program, o *roll, before snapshot.RollStage) {
	// After the records of the restarted instances: a successor restarts them, if these are lost
	r.save(program.Name, o)
	r.subscriptions.Changed()
	switch {
	case o.Stage == before:
		return
	case o.Stage == snapshot.RollAwaits:
		r.record(program.Name, string(o.Stage), fsm.ReasonRollAwaits.With(words.Plural(o.Extra, "extra replica")), fsm.Actor{})
	case o.Stage == snapshot.RollHeld:
		r.record(program.Name, string(o.Stage), fsm.ReasonRollFailed.With(o.Failure), fsm.Actor{})
		r.Log.Warn("rolling restart ended; extra replicas stay until the others are up", "program", program.Name, "reason", o.Failure)
	case o.Stage == snapshot.RollEnds:
		r.replicas.removeSurplus(program, fsm.By(fsm.ActorRoll))
		r.post()
	case o.Stage == snapshot.RollStarts || o.Stage == snapshot.RollRestarts:
		r.post() // the next one may have its turn at once
	}
	if o.Decided() {
		r.answer(program.Name, o)
	}
}

// limits returns the limits of a roll.
func (r *rolls) limits(program *config.Program, o *roll) rolling.Limits {
	l := o.Limits(program)
	if plant := r.options.tests.rollLimits; plant != nil {
		plant(&l)
	}
	return l
}

// look returns the replicas of a program as a roll sees them.
func (r *rolls) look(program *config.Program) (all []rolling.Replica) {
	for _, in := range r.registry.of(program.Name) {
		extra := r.isExtra(in)
		if !extra && (in.Membership.Leaves() || !r.replicas.ordinary(program, in.Name)) {
			continue // no replica of the program any more
		}
		v := rolling.Replica{
			Name: in.Name, Run: instance.RunID(in), Extra: extra,
			Is: rolling.Coming, Ends: in.MustEnd(),
		}
		since := instance.ReadySince(in)
		m := &in.Machine
		switch state := m.State(); {
		case in.Membership.Leaves():
		case !m.Desired().Up:
			v.Is = rolling.Stopped
		case in.IsOneShot() && (state == fsm.Exited || in.AwaitsTrigger()):
			v.Is, since = rolling.Up, in.Since()
		case state == fsm.Exited:
			v.Is = rolling.Ended
		case state == fsm.Failed || state == fsm.Backoff:
			v.Is, v.Final = rolling.Failed, in.StaysDown()
		case state == fsm.Running && !in.IsOneShot() && !v.Ends:
			v.Is = rolling.Up
		default:
			v.Waits = state == fsm.Waiting || in.Quarantined() || in.Unkillable() != ""
		}
		if v.UpFor = r.Loop.Now() - since; v.Is == rolling.Failed || v.Waits || extra {
			v.Why = in.Reason()
		}
		all = append(all, v)
	}
	return all
}

// results returns what became of the replicas of a roll.
func (r *rolls) results(program string, o *roll, failure string) (all []CommandResult) {
	for _, in := range r.registry.of(program) {
		turn, has := o.Turns[in.Name]
		extra := r.isExtra(in) && !in.Membership.Leaves()
		result := CommandResult{Name: in.Name, OK: true, State: in.Machine.State(), Message: in.Reason()}
		switch {
		case extra && o.Stage == snapshot.RollAwaits && failure == "":
			result.Message = fmt.Sprintf("extra replica, running, pid %d: `superd ctl continue %s` restarts the others, `superd ctl undo %s` removes it", in.Pid(), program, program)
		case !has:
			continue
		case !turn.Taken && failure == "":
			continue // it waits for the operator
		case !turn.Taken:
			result.OK, result.Message = false, "not restarted: "+failure
		case result.State == fsm.Running:
			result.Message = fmt.Sprintf("running, pid %d", in.Pid())
		default:
			result.OK = result.State == fsm.Exited || in.AwaitsTrigger() && in.Machine.Outcome() == fsm.RunEndedDone
		}
		all = append(all, result)
	}
	failed := slices.ContainsFunc(all, func(c CommandResult) bool { return !c.OK })
	if len(all) == 0 || failure != "" && !failed {
		all = append(all, CommandResult{Name: program, OK: failure == "", State: fsm.Stopped, Message: cmp.Or(failure, "nothing to restart")})
	}
	return all
}

// text describes the roll of a program, as for a second one that is refused; empty without one.
func (r *rolls) text(program string) string {
	o := r.all[program]
	if o == nil {
		return ""
	}
	text := o.Text(program)
	if why := r.waitsFor(o); why != "" {
		text += "; " + why
	}
	return text
}

// waitsFor returns which replica waits for its start, for what and how long; empty if none does.
func (r *rolls) waitsFor(o *roll) string {
	name, limit := o.Waiting()
	in := r.registry.named(name)
	if in == nil {
		return ""
	}
	text := name + " " + in.Reason()
	if limit > 0 {
		text += ", for at most " + words.Duration(words.Round(rolling.Left(limit, r.Loop.Now()-o.looked))) + " more"
	}
	return text
}

// measure fills in how long replicas have waited for their start.
func (o *roll) measure(all []rolling.Replica, now time.Duration) {
	before := o.waits
	o.waits, o.looked = nil, now
	for i := range all {
		if p := &all[i]; p.Waits {
			since, has := before[p.Name]
			if !has {
				since = now
			}
			if o.waits == nil {
				o.waits = map[string]time.Duration{}
			}
			o.waits[p.Name], p.WaitedFor = since, now-since
		}
	}
}

// status returns the state of the roll of the instance's program; nil without one.
func (r *rolls) status(in *instance.Instance) *rolling.Status {
	o := r.all[in.Program.Name]
	if o == nil {
		return nil
	}
	st := o.Status()
	st.Extra, st.Waits = r.isExtra(in), r.waitsFor(o)
	return &st
}

// isExtra reports whether the instance is an extra replica of a roll.
func (r *rolls) isExtra(in *instance.Instance) bool {
	if len(r.all) == 0 || r.all[in.Program.Name] == nil {
		return false
	}
	program := r.config.active.Program(in.Program.Name)
	if program == nil {
		return false
	}
	n := r.replicas.extraNumber(program, in.Name)
	return 1 <= n && n <= r.all[program.Name].Extra
}
