package procs

import (
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// An instance is one instance of a program: its machine, and what the machine's effects act on.
type instance struct {
	sup                *Supervisor
	name               string
	program            *config.Program
	scope              loop.Scope // open until the instance is removed
	machine            fsm.Machine
	node               node // its place in the dependency graph
	collector          logs.Collector
	lastCompletedStart uint64 // number of the newest start whose result is known
	// By stream: the names of its FIFOs in the descriptor store
	fifoNames [2]fdName
	// A logger's input; nil before it exists and after its release
	inputFIFO *loggerFIFO
	// Invocation id of the last run that ended with output still in the pipe; "" when that is in
	// the log
	drainingRun string
	// Invocation id of the run whose output is being awaited; "" without one
	awaitedDrain string
	tree         host.Tree
	run          *run // nil at rest and in backoff

	restartTimer    *loop.Timer   // pending RestartDue; nil without one
	onRunEnd        func()        // shows the end of a run; may be nil
	cancelLineWatch func()        // ends the notification of new lines; nil without a watcher
	sinceAt         time.Duration // when the shown state began
	lastExit        *ExitStatus   // how the last run ended; nil before the first end
	*problems                     // never nil
	// Progress of its schedule; nil for a program without one
	schedule   *scheduleState
	execProbe  *execProbe  // runs its exec checks; nil before the first one
	quarantine *quarantine // prevents its start; nil without one
	waiters    []*waiter

	// Definition of its replacement; nil unless membership says that there is one
	replacement *config.Program
	// Desired state of the replacement; nil: none set by the operator
	replacementTarget *fsm.Target
	// Must be removed before the start; nil without a conflict
	conflict *instance
	// Instances that this one blocks by a conflict; some may be removed or have another conflict by
	// now
	conflicting []*instance
	// Definition whose log options apply; nil: those of the program and of its run are mixed
	logDefinition *config.Program

	counted       fsm.State // the registry counts it in this state
	hungWorkers   int32     // cancelled workers that have not returned
	treeRecovered bool      // an earlier superd created the tree
	enqueued      bool      // it is in the reconcile queue
	answerQueued  bool      // its waiters are answered after reconciliation
	membership    fsm.Membership
}

// problems holds diagnostics that are rarely set; it is allocated on first use.
type problems struct {
	unkillable      string     // describes the processes that SIGKILL did not end
	hangsIn         string     // stage in which the last cancelled worker hangs
	probeUnkillable string     // describes the processes of a check that SIGKILL did not end
	noOutput        string     // why its output is not captured; empty if it is
	exitNote        fsm.Reason // what else is known about the end of its run
	mainPidLog      logLimit   // bounds the log lines about MAINPID=
}

// noProblems is shared by all instances without problems: most of them. It is never changed.
var noProblems problems

// ownProblems returns the instance's own problems, for writing, and allocates them if necessary.
func (in *instance) ownProblems() *problems {
	if in.problems == &noProblems {
		in.problems = new(problems)
	}
	return in.problems
}

// newInstance returns a stopped instance. runProgram is the definition with which its run began, or
// program without a run. treePath is the path of a tree that an earlier superd created; empty:
// none.
func (s *Supervisor) newInstance(name string, program, runProgram *config.Program, treePath string) *instance {
	in := &instance{
		sup:           s,
		name:          name,
		program:       program,
		machine:       fsm.New(program, s.options.tests.rules),
		problems:      &noProblems,
		logDefinition: program,
		tree:          s.host.NewTree(name, treePath),
		sinceAt:       s.loop.Now(),
	}
	in.scope.Open(s.scope)
	o := s.logOptions(name, program)
	if runProgram != program { // the output of the run stays in the same files
		o = duringRun(s.logOptions(name, runProgram), o)
		in.logDefinition = nil
	}
	in.collector.Open(s.store, &in.scope, name, o)
	in.sup.conflicts.claim(in, nil, in.collector.Files())
	if s.options.OnCollector != nil {
		in.onRunEnd = s.options.OnCollector(&in.collector)
	}
	s.subscriptions.watchLines(in)
	in.addToGraph()
	return in
}

// save queues the instance's record.
func (in *instance) save() {
	if in.scope.Closed() || in.sup.recorder.ended {
		return
	}
	in.sup.recorder.queue(snapshot.InstanceKey(in.name), in.snapshot())
}

// snapshot returns the instance's record. It shares no mutable data.
func (in *instance) snapshot() *snapshot.Instance {
	v := &snapshot.Instance{
		Config: in.sup.config.number, Removed: in.membership.Leaves(),
		Quarantined: in.quarantine != nil, Since: in.sinceAt,
		LastCompletedStart: in.lastCompletedStart, Tree: in.tree.Path(),
		Exit: in.lastExit.snapshot(),
	}
	if in.membership.Leaves() {
		v.Definition = snapshot.WithoutMistakes(in.program)
	}
	if desired := in.replacementTarget; desired != nil {
		v.ReplacementTarget = new(desired.Snapshot())
	}
	if t := in.restartTimer; t != nil {
		v.Due = new(t.Due())
	}
	if in.execProbe != nil {
		v.Probes = in.execProbe.tree.Path()
	}
	if in.run != nil {
		v.Run = in.run.snapshot()
	}
	v.SetMachine(in.machine.Snapshot())
	in.schedule.snapshot(v)
	in.snapshotOutput(v)
	return v
}

// restore sets the instance to its record. The recovery restores what needs processes and
// descriptors: the run, its hook and notifications, and the output.
func (in *instance) restore(v *snapshot.Instance) {
	in.machine.Restore(v.Machine(), v.Run != nil)
	in.sinceAt, in.lastCompletedStart = v.Since, v.LastCompletedStart
	in.lastExit = restoreExit(v.Exit)
	if desired := v.ReplacementTarget; desired != nil {
		in.replacementTarget = new(desired.Restore())
	}
	in.schedule = restoreSchedule(v)
}

// renewTree replaces the instance's tree by one at path. The new tree contains only processes of
// the instance.
func (in *instance) renewTree(path string) {
	in.tree.Remove()
	in.tree = in.sup.host.NewTree(in.name, path)
	in.treeRecovered = path != ""
}

// runtimePaths returns the paths of all FIFOs and notify sockets that the instance can have, under
// any definition of its program.
func (in *instance) runtimePaths() []string {
	s := in.sup
	return []string{s.fifoPath(in.name, logs.Stdout), s.fifoPath(in.name, logs.Stderr), s.fifoPath(in.name, input), in.socketPath()}
}

// streamsOf returns the streams for which the program has FIFOs.
func streamsOf(p *config.Program) []logs.Stream {
	if p.Log.Stderr == config.StderrMerge {
		return []logs.Stream{logs.Stdout}
	}
	return []logs.Stream{logs.Stdout, logs.Stderr}
}

func (p *platform) logOptions(instance string, program *config.Program) logs.Options {
	o := logs.Options{
		Program:     program.Name,
		User:        program.User,
		Path:        program.LogPath(p.options.Paths.LogDir, instance),
		Split:       len(streamsOf(program)) > 1,
		StderrPath:  program.StderrPath(p.options.Paths.LogDir, instance),
		Format:      logs.Format(program.Log.Format),
		MaxSize:     program.Log.MaxSize,
		MaxAge:      program.Log.MaxAge,
		Keep:        program.Log.Keep,
		MaxTotal:    program.Log.MaxTotal,
		Compression: logs.Compression(program.Log.Compress),
		Drop:        program.Log.Overflow == config.OverflowDrop,
		MinFree:     program.Log.MinFree,
		Owner:       program.Log.Owner,
		Group:       program.Log.Group,
	}
	if program.Log.Mode != nil {
		o.Mode = *program.Log.Mode
	}
	if program.Log.Sink != config.SinkFile {
		o.Sink, o.Address, o.Identifier, o.Facility = logs.Sink(program.Log.Sink), program.Log.Address, program.Log.Identifier, program.Log.Facility.Number()
	}
	if program.Log.Sink == config.SinkCommand {
		o.Address = p.loggerInputPath(program)
	}
	return o
}

// reason returns why the state is what it is.
func (in *instance) reason() string {
	_, text := in.shownReason()
	return text
}

// shownReason returns the reason of the state and, in the text, what happens at the moment.
func (in *instance) shownReason() (kind fsm.ReasonKind, text string) {
	if in.unkillable != "" {
		return fsm.ReasonUnkillable, in.unkillable
	}
	r, more := in.machine.StateReason(), ""
	switch stage := in.stage(); {
	case in.awaitsSchedule():
		r, more = in.waitReason(), "; "+in.nextRunText()
	case in.machine.State() == fsm.Waiting:
		r = in.blockedReason()
	case stage != "":
		more = ": " + stage
	}
	return r.Kind, r.String() + more
}

// stage returns what happens at the moment, if that is more than the state says; else "".
func (in *instance) stage() string {
	switch r := in.run; {
	case r == nil:
	case in.machine.State() == fsm.StopPending:
		return "waits until " + in.remainingDependents() + " down"
	case r.teardown != nil:
		return r.teardown.stage()
	case r.hook != nil:
		return r.hook.stage()
	case r.delayedBegin != nil:
		return "waits for an earlier start, which hangs in " + in.hangsIn
	case r.pending != nil:
		return r.pending.Stage()
	case r.readiness != nil:
		return "not ready yet: " + r.readiness.stage()
	case r.ownStopTimer != nil && in.machine.State() == fsm.Running:
		return "it is about to exit (STOPPING=1)"
	case r.reloadTimer != nil && in.machine.State() == fsm.Running:
		return "it reloads its configuration (RELOADING=1)"
	case r.monitor != nil && r.monitor.healthy() != nil && !*r.monitor.healthy():
		return r.monitor.unhealthyReason()
	}
	return ""
}
