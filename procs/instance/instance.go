package instance

import (
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
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
	Output       output
	Membership   membership
	Tree         host.Tree
	run          *run          // nil at rest and in backoff
	restartTimer *loop.Timer   // pending RestartDue; nil without one
	SinceAt      time.Duration // when the shown state began
	LastExit     *ExitStatus   // how the last run ended; nil before the first end
	*problems                  // never nil
	// Progress of its schedule; nil for a program without one
	Schedule   *scheduleState
	checks     *execprobe.Runner // runs its exec checks; nil before the first one
	Quarantine *quarantine       // prevents its start; nil without one
	spawns     spawns
	Marks      marks
}

// marks are what parts of the supervisor note of an instance. It does not use them itself.
type marks struct {
	Counted       fsm.State // the registry counts it in this state
	TreeRecovered bool      // an earlier superd created the tree
	Enqueued      bool      // it is in the reconcile queue
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

// after updates the membership after e.
func (m *membership) Update(e fsm.MembershipEvent) { m.Membership = m.Membership.After(e) }

// problems holds diagnostics that are rarely set; it is allocated on first use.
type problems struct {
	Unkillable string     // describes the processes that SIGKILL did not end
	hangsIn    string     // stage in which the last cancelled worker hangs
	noOutput   string     // why its output is not captured; empty if it is
	exitNote   fsm.Reason // what else is known about the end of its run
	mainPidLog LogLimit   // bounds the log lines about MAINPID=
}

// noProblems is shared by all instances without problems: most of them. It is never changed.
var noProblems problems

// ownProblems returns the instance's own problems, for writing, and allocates them if necessary.
func (in *Instance) ownProblems() *problems {
	if in.problems == &noProblems {
		in.problems = new(problems)
	}
	return in.problems
}

// newInstance returns a stopped instance. runProgram is the definition with which its run began, or
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
		SinceAt:  env.Loop.Now(),
	}
	in.Node.in, in.Output.in = in, in
	in.Scope.Open(env.Scope)
	in.Output.open(runProgram)
	in.Node.Join()
	return in
}

// Save queues the instance's record.
func (in *Instance) Save() {
	if in.Scope.Closed() || in.Env.Records.Ended() {
		return
	}
	in.Env.Records.Queue(snapshot.InstanceKey(in.Name), in.Snapshot())
}

// Snapshot returns the instance's record. It shares no mutable data.
func (in *Instance) Snapshot() *snapshot.Instance {
	v := &snapshot.Instance{
		Config: in.Env.Config.Number(), Removed: in.Membership.Leaves(),
		Quarantined: in.Quarantine != nil, Since: in.SinceAt,
		LastCompletedStart: in.spawns.completed, Tree: in.Tree.Path(),
		Exit: in.LastExit.snapshot(),
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
	if in.run != nil {
		v.Run = in.run.snapshot()
	}
	v.SetMachine(in.Machine.Snapshot())
	in.Schedule.snapshot(v)
	in.Output.snapshot(v)
	return v
}

// Restore sets the instance to its record. The recovery restores what needs processes and
// descriptors: the run, its hook and notifications, and the output.
func (in *Instance) Restore(v *snapshot.Instance) {
	in.Machine.Restore(v.Machine(), v.Run != nil)
	in.SinceAt, in.spawns.completed = v.Since, v.LastCompletedStart
	in.LastExit = restoreExit(v.Exit)
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

// StreamsOf returns the streams for which the program has FIFOs.
func StreamsOf(p *config.Program) []logs.Stream {
	if p.Log.Stderr == config.StderrMerge {
		return []logs.Stream{logs.Stdout}
	}
	return []logs.Stream{logs.Stdout, logs.Stderr}
}

// Reason returns why the state is what it is.
func (in *Instance) Reason() string {
	_, text := in.shownReason()
	return text
}

// shownReason returns the reason of the state and, in the text, what happens at the moment.
func (in *Instance) shownReason() (kind fsm.ReasonKind, text string) {
	if in.Unkillable != "" {
		return fsm.ReasonUnkillable, in.Unkillable
	}
	r, more := in.Machine.StateReason(), ""
	switch stage := in.stage(); {
	case in.AwaitsSchedule():
		r, more = in.waitReason(), "; "+in.Schedule.nextText()
	case in.Machine.State() == fsm.Waiting:
		r = in.Node.blockedReason()
	case stage != "":
		more = ": " + stage
	}
	return r.Kind, r.String() + more
}

// stage returns what happens at the moment, if that is more than the state says; else "".
func (in *Instance) stage() string {
	switch r := in.run; {
	case r == nil:
	case in.Machine.State() == fsm.StopPending:
		return "waits until " + in.Node.remainingDependents() + " down"
	case r.teardown != nil:
		return r.teardown.stage()
	case r.hook != nil:
		return r.hook.stage()
	case r.spawn.delayedBegin != nil:
		return "waits for an earlier start, which hangs in " + in.hangsIn
	case r.spawn.pending != nil:
		return r.spawn.pending.Stage()
	case r.readiness != nil:
		return "not ready yet: " + r.readiness.stage()
	case r.ownStopTimer != nil && in.Machine.State() == fsm.Running:
		return "it is about to exit (STOPPING=1)"
	case r.reloadTimer != nil && in.Machine.State() == fsm.Running:
		return "it reloads its configuration (RELOADING=1)"
	case r.monitor != nil && r.monitor.healthy() != nil && !*r.monitor.healthy():
		return r.monitor.unhealthyReason()
	}
	return ""
}

// Pid returns the pid of the main process, 0 without one.
func (in *Instance) Pid() int {
	if p := in.MainProcess(); p != nil {
		return p.Pid()
	}
	return 0
}

// HasEdges reports whether the instance has edges in the dependency graph, in either direction.
func (in *Instance) HasEdges() bool { return in.Node.Linked() }

// Hurry ends the time-out of a stop, a teardown or a hook.
func (in *Instance) Hurry() {
	switch r := in.run; {
	case in.Machine.State() == fsm.StopPending:
		in.Apply(in.Machine.StopNow())
	case in.Machine.State() == fsm.Stopping:
		in.Apply(in.Machine.StopTimedOut())
	case r != nil && r.teardown != nil:
		r.teardown.kill()
	case r != nil && r.hook != nil:
		r.hook.kill()
	}
}

// replicaNumber returns an instance's number within its program; "1" if it has none.
func replicaNumber(instance string) string {
	if _, number, numbered := strings.Cut(instance, "@"); numbered {
		return number
	}
	return "1"
}

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

func (in *Instance) IsOneShot() bool { return in.Program.Type == config.TypeOneshot }

// Close ends the instance, which is at rest and about to be removed.
func (in *Instance) Close() {
	in.Output.release()
	in.Tree.Remove()
	if in.checks != nil {
		in.checks.Remove()
	}
	in.Node.leave()
	in.Scope.Close()
}

// Closed reports whether the instance was removed.
func (in *Instance) Closed() bool { return in.Scope.Closed() }

// HasRun reports whether a run is under way.
func (in *Instance) HasRun() bool { return in.run != nil }

// Quarantined reports whether leftover processes prevent the start.
func (in *Instance) Quarantined() bool { return in.Quarantine != nil }

// MainProcess returns the main process; nil without one.
func (in *Instance) MainProcess() host.Process {
	if in.run == nil {
		return nil
	}
	return in.run.main.process
}

// RetryPending reports whether a restart is pending.
func (in *Instance) RetryPending() bool { return in.restartTimer != nil }
