package instance

import (
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/counters"
	"superd/procs/eventlog"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/output"
	"superd/procs/snapshot"
)

// An Instance is one instance of a program: its machine, and what the machine's effects act on.
type Instance struct {
	Env          *Env
	Name         string
	Program      *config.Program
	Scope        loop.Scope // open until the instance is removed
	Machine      fsm.Machine
	Node         node // its place in the dependency graph
	Output       output.Output
	Membership   membership
	Tree         host.Tree
	run          *run          // nil at rest and in backoff
	restartTimer *loop.Timer   // pending RestartDue; nil without one
	since        time.Duration // when the shown state began
	*problems                  // never nil
	// Progress of its schedule; nil for a program without one
	Schedule       *scheduleState
	checks         *execprobe.Runner // runs its exec checks; nil before the first one
	completedStart uint64            // number of the newest start whose result is known
	Marks          marks
}

// marks are flags of an instance that others set, most of them parts of the supervisor.
type marks struct {
	Counted       fsm.State // the registry counts it in this state
	TreeRecovered bool      // an earlier superd created the tree
	Enqueued      bool      // it is in the reconcile queue
	Stops         uint32    // number of stops by the operator since superd began
}

// A membership says whether the configuration has an instance, and what takes its place.
type membership struct {
	fsm.Membership
	// Definition of its replacement; nil unless there is one
	Replacement *config.Program
	// Desired state of the replacement; nil: none set by the operator
	Target *fsm.Target
	// Must be removed before the start; nil without a conflict
	Conflict *Instance
}

// Update updates the membership after e.
func (m *membership) Update(e fsm.MembershipEvent) { m.Membership = m.Membership.After(e) }

// ReplaceBy records that an instance with this definition takes the place of this one.
func (m *membership) ReplaceBy(program *config.Program) {
	m.Replacement = program
	m.Update(fsm.Replace)
}

// DropReplacement records that no other instance takes the place of this one.
func (m *membership) DropReplacement() {
	m.Replacement = nil
	m.Update(fsm.DropReplacement)
}

// problems holds what most instances do not have. It is allocated on first use.
type problems struct {
	Quarantine  *quarantine // prevents its start; nil without one
	hungWorkers int32       // cancelled workers of its starts that have not returned
	unkillable  string      // describes the processes that SIGKILL did not end
	hangsIn     string      // stage in which the last cancelled worker hangs
	noOutput    string      // why its output is not captured; empty if it is
	exitNote    fsm.Reason  // what else is known about the end of its run
	sandbox     []string    // what of its sandbox could not be enforced at its start
	mainPidLog  logLimit    // bounds the log lines about MAINPID=
	// How the last reload of the program ended; nil before the first one, and never changed
	LastReload *snapshot.ReloadEnd
	LastExit   *ExitStatus // how the last run ended; nil before the first end
	Counts     counters.Counts
	flaps      flaps
}

// These are shared by instances without problems: most of them. They are never changed.
var noProblems, startedOnce = problems{}, problems{Counts: counters.Counts{Starts: counters.StartedOnce()}}

// ownProblems returns the instance's own problems, for writing, and allocates them if necessary.
func (in *Instance) ownProblems() *problems {
	if in.problems == &noProblems || in.problems == &startedOnce {
		in.problems = new(*in.problems)
	}
	return in.problems
}

// New returns a stopped instance. runProgram is the definition with which its run began, or
// program without a run. treePath is the path of a tree that an earlier superd created; empty:
// none.
func New(env *Env, name string, program, runProgram *config.Program, treePath string) *Instance {
	in := &Instance{
		Env:      env,
		Name:     name,
		Program:  program,
		Machine:  fsm.New(program, env.Rules),
		problems: &noProblems,
		Tree:     env.Host.NewTree(name, treePath),
		since:    env.Loop.Now(),
	}
	in.Scope.Open(env.Scope)
	in.Output.Open(outputInstance{in}, runProgram)
	joinGraph(in)
	return in
}

// Close ends the instance, which is at rest and about to be removed.
func (in *Instance) Close() {
	in.Output.Release()
	in.Tree.Remove()
	if in.checks != nil {
		in.checks.Remove()
	}
	in.Node.leave()
	in.Scope.Close()
}

// Closed reports whether the instance was removed.
func (in *Instance) Closed() bool { return in.Scope.Closed() }

// Apply performs the effects of a transition of the instance's machine, then notifies the
// observers. No effect steps the machine: what it leads to is a transition of its own, later.
func (in *Instance) Apply(t fsm.Transition) {
	for _, effect := range t.Effects {
		in.perform(effect)
	}
	in.Env.Owner.Transitioned(in, t.From, t.To)
}

// Conditions returns what other instances mean for the machine now.
func (in *Instance) Conditions() fsm.Conditions {
	n := &in.Node
	return fsm.Conditions{
		AwaitsOthers: n.Waiting(), Lost: n.Lost(), HasDependents: n.HasDependents(),
		DependentsDown: n.DependentsDown(), Ordered: n.Ordered(), Held: held(in),
	}
}

// MustEnd reports whether a current or coming run has to end.
func (in *Instance) MustEnd() bool { return in.Machine.MustEnd(in.Conditions()) }

// Save queues the instance's record.
func (in *Instance) Save() {
	if in.Scope.Closed() || in.Env.Records.Ended() {
		return
	}
	in.Env.Records.Queue(snapshot.InstanceKey(in.Name), in.Snapshot())
}

// Record puts an event of the instance into the event log.
func (in *Instance) Record(e eventlog.Event) {
	e.Instance, e.Program = in.Name, in.Program.Name
	if e.Run == "" && in.run != nil {
		e.Run = in.run.invocationID
	}
	in.Env.Records.Record(e)
}

// Snapshot returns the instance's record. It shares no mutable data.
func (in *Instance) Snapshot() *snapshot.Instance {
	v := &snapshot.Instance{
		Config: in.Env.Config.Number(), Removed: in.Membership.Leaves(),
		Quarantined: in.Quarantine != nil, Since: in.since,
		LastCompletedStart: in.completedStart, Tree: in.Tree.Path(),
		Exit: in.LastExit.snapshot(), LastReload: in.LastReload, Counts: in.Counts,
	}
	if in.Membership.Leaves() {
		v.Definition = snapshot.WithoutMistakes(in.Program)
	}
	if desired := in.Membership.Target; desired != nil {
		v.ReplacementTarget = new(desired.Snapshot())
	}
	if t := in.restartTimer; t != nil {
		v.Due = new(t.Due())
	}
	if in.checks != nil {
		v.Probes = in.checks.TreePath()
	}
	v.Flapping = in.flaps.Snapshot()
	if in.run != nil {
		v.Run = in.run.snapshot()
	}
	v.SetMachine(in.Machine.Snapshot())
	v.RunPending = v.RunPending && (in.Schedule != nil || in.Program.Accepts())
	in.Schedule.snapshot(v)
	in.Output.Snapshot(v)
	return v
}

// Restore sets the instance to its record. The recovery restores what needs processes and
// descriptors: the run, its hook and notifications, and the output.
func (in *Instance) Restore(v *snapshot.Instance) {
	in.Machine.Restore(v.Machine(), v.Run != nil)
	in.since, in.completedStart = v.Since, v.LastCompletedStart
	if v.Counts == startedOnce.Counts {
		in.problems = &startedOnce
	}
	if v.Counts != in.Counts || v.Exit != nil {
		p := in.ownProblems()
		p.Counts, p.LastExit = v.Counts, restoreExit(v.Exit)
	}
	if v.LastReload != nil {
		in.ownProblems().LastReload = v.LastReload
	}
	restoreFlapping(in, v.Flapping)
	if desired := v.ReplacementTarget; desired != nil {
		in.Membership.Target = new(desired.Restore())
	}
	in.Schedule = restoreSchedule(in, v)
}

// renewTree replaces the instance's tree by one at path. The new tree contains only processes of
// the instance.
func (in *Instance) renewTree(path string) {
	in.Tree.Remove()
	in.Tree = in.Env.Host.NewTree(in.Name, path)
	in.Marks.TreeRecovered = path != ""
}

// IsOneShot reports whether the program runs once: a run that ends with success is done.
func (in *Instance) IsOneShot() bool { return in.Program.Type == config.TypeOneshot }

// IsLogger reports whether the instance reads the output of another program.
func (in *Instance) IsLogger() bool { return in.Program.LoggerOf != "" }

// HasRun reports whether a run is under way.
func (in *Instance) HasRun() bool { return in.run != nil }

// MainProcess returns the main process; nil without one.
func (in *Instance) MainProcess() host.Process {
	if in.run == nil {
		return nil
	}
	return in.run.main.process
}

// Pid returns the pid of the main process, 0 without one.
func (in *Instance) Pid() int {
	if p := in.MainProcess(); p != nil {
		return p.Pid()
	}
	return 0
}

// Quarantined reports whether leftover processes prevent the start.
func (in *Instance) Quarantined() bool { return in.Quarantine != nil }

// probing reports whether a process of a check may live.
func (in *Instance) probing() bool { return in.checks != nil && in.checks.Busy() }

// RetryPending reports whether a restart is pending.
func (in *Instance) RetryPending() bool { return in.restartTimer != nil }

// Since returns when the shown state began, on the loop's clock.
func (in *Instance) Since() time.Duration { return in.since }

// Unkillable describes the processes that SIGKILL did not end; empty without any.
func (in *Instance) Unkillable() string { return in.unkillable }

// StaysDown reports whether the instance ended by itself and is not restarted.
func (in *Instance) StaysDown() bool {
	state := in.Machine.State()
	return state == fsm.Exited || state == fsm.Failed && !in.Machine.Retries()
}

// AwaitsTrigger reports whether the instance waits for its schedule. Other blockers matter only
// when a time of the schedule is due.
func (in *Instance) AwaitsTrigger() bool {
	return in.Machine.State() == fsm.Waiting && in.Machine.AwaitsTrigger()
}
