package procs

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/logs"
	"superd/loop"
)

// An instance is one instance of a program: its machine, and what the machine's effects are done to.
type instance struct {
	sup         *Supervisor
	name        string
	program     *config.Program
	scope       loop.Scope // until the instance is removed
	machine     machine
	edges       []*edge // to the programs that it names
	capture     logs.Capture
	settled     uint64      // number of the newest birth of which is known what came of it
	kept        [2]keptName // by stream: the names under which the keeper has its FIFOs
	feed        *feed       // a logger's; nil: not made yet, or let go of
	draining    string      // invocation id of the last run that has ended, until all that it wrote is in the log
	drainsUntil string      // that of the run whose end in the log is waited for; "": none is
	tree        Tree
	run         *run // the present run; nil at rest and in back-off

	restartTimer *loop.Timer // pending RestartDue; nil without one
	runShown     func()      // tells who shows the lines that a run is over; may be nil
	cancelLines  func()      // ends the reports of new lines; nil while nobody watches
	sinceAt      time.Duration
	lastExit     *ExitStatus
	*remarks     // never nil
	sched        *scheduling
	site         *probeSite // of its exec checks; nil before the first one
	held         *hold      // keeps it from being started; else nil
	waiters      []*waiter

	next     *config.Program // takes its place then, where the program was added again meanwhile
	nextWish *wish           // what the operator wants of next; nil: nothing in particular
	hinderer *instance       // has to be gone before it may be started; nil: nobody has
	hinders  []*instance     // those whose hinderer it is, and some that are gone or wait for another by now
	logsBy   *config.Program // whose log options are in force; nil: in part those of the program, in part those of its run

	published standing // what the others know of it
	seat      int32    // its place in its program's node
	hanging   int32    // workers that were called off and have not come back
	inherited bool     // the tree is one that an earlier superd has made
	touched   bool     // it is about to be looked at
	asked     bool     // its waiters are told when nobody is about to be looked at any more
	removed   bool     // goes away when it is at rest
	departing bool     // it is, and its last output is being written
}

// remarks are what hardly ever is to be said of an instance.
type remarks struct {
	stuck      string // names the processes that SIGKILL did not end
	hangsIn    string // what the last of them hangs in
	probeStuck string // names the processes of a check that SIGKILL did not end
	noOutput   string // why its output is not captured; empty where it is
	note       string // what else is to be said of the end of its run; empty if nothing
}

// noRemarks are those of whom nothing of that was ever to be said: of most. It is never changed.
var noRemarks remarks

// remark has the instance have remarks of its own, to say something in.
func (in *instance) remark() *remarks {
	if in.remarks == &noRemarks {
		in.remarks = new(remarks)
	}
	return in.remarks
}

// newInstance returns an instance that is stopped. begun is the table by which its run was begun, if it has one, else its own; place is where an earlier superd had its tree; empty: it has none yet.
func (s *Supervisor) newInstance(name string, program, begun *config.Program, place string) *instance {
	in := &instance{
		sup:     s,
		name:    name,
		program: program,
		machine: newMachine(program, s.rng),
		remarks: &noRemarks,
		logsBy:  program,
		tree:    s.system.NewTree(name, place),
		sinceAt: s.loop.Now(),
	}
	in.scope.Open(s.scope)
	s.counts[Stopped]++
	s.outputs += fifosOf(program)
	s.loggers += one(in.isLogger())
	o := s.logOptions(name, program)
	if begun != program { // its output stays where the run has begun it
		o = duringRun(s.logOptions(name, begun), o)
		in.logsBy = nil
	}
	in.capture.Open(s.store, &in.scope, name, o)
	in.occupy(nil, in.capture.Files())
	if s.options.OnCapture != nil {
		in.runShown = s.options.OnCapture(&in.capture)
	}
	s.watchLines(in)
	in.join()
	return in
}

// renewTree gives the instance a tree at that place, in which nothing lives that it has not had before.
func (in *instance) renewTree(place string) {
	in.tree.Remove()
	in.tree = in.sup.system.NewTree(in.name, place)
	in.inherited = place != ""
}

// fifo returns the path of the FIFO of a stream. No instance has a name with a colon.
func (s *Supervisor) fifo(instance string, which logs.Stream) string {
	switch which {
	case logs.Stderr:
		instance += ":stderr"
	case input:
		instance += ":stdin"
	}
	return filepath.Join(s.options.RuntimeDir, fifoDir, instance)
}

// streamsOf returns the streams for which the program has FIFOs.
func streamsOf(p *config.Program) []logs.Stream {
	if p.Log.Stderr == config.StderrMerge {
		return []logs.Stream{logs.Stdout}
	}
	return []logs.Stream{logs.Stdout, logs.Stderr}
}

func (s *Supervisor) logOptions(instance string, p *config.Program) logs.Options {
	o := logs.Options{
		Program:     p.Name,
		Path:        p.LogPath(s.options.LogDir, instance),
		Split:       len(streamsOf(p)) > 1,
		StderrPath:  p.StderrPath(s.options.LogDir, instance),
		Format:      logs.Format(p.Log.Format),
		MaxSize:     p.Log.MaxSize,
		MaxAge:      p.Log.MaxAge,
		Keep:        p.Log.Keep,
		MaxTotal:    p.Log.MaxTotal,
		Compression: logs.Compression(p.Log.Compress),
		Drop:        p.Log.Overflow == config.OverflowDrop,
		MinFree:     p.Log.MinFree,
		Owner:       p.Log.Owner,
		Group:       p.Log.Group,
	}
	if p.Log.Mode != nil {
		o.Mode = *p.Log.Mode
	}
	if p.Log.Sink != config.SinkFile {
		o.Sink, o.Address, o.Identifier, o.Facility = logs.Sink(p.Log.Sink), p.Log.Address, p.Log.Identifier, p.Log.Facility.Number()
	}
	if p.Log.Sink == config.SinkCommand {
		o.Address = s.loggerInput(p)
	}
	return o
}

// do performs the effects of one step of the machine and tells who wants to know.
func (in *instance) do(step func() []Effect) {
	before := in.machine.state
	for _, effect := range step() {
		in.perform(effect)
	}
	after := in.machine.state
	in.sup.counts[before]--
	in.sup.counts[after]++
	if r := in.run; r != nil && r.readiness != nil && after != Starting {
		r.readiness.end()
	}
	if r := in.run; r != nil && r.monitor != nil && after != Running {
		r.monitor.end()
	}
	in.keepSchedule()
	in.tellSkipped()
	if after == Waiting {
		in.machine.cause = in.waitCause()
	}
	if before.String() != after.String() || after == Spawning {
		in.sinceAt = in.sup.loop.Now()
	}
	if before != after {
		in.sup.log.Debug("state changed", "instance", in.name, "from", before.String(), "to", after.String(), "reason", in.machine.cause)
		in.recordState(before)
	}
	in.save()
	in.publish()
	if m := &in.machine; before != after && in.ordered() || after == Waiting && m.follows > 0 || m.wanted.up && m.unasked > 0 {
		in.touch()
	}
	in.settleWaiters()
	in.sup.changed()
	if before != after && in.endedForGood() {
		in.sup.endedForGood(in)
	}
	if after.AtRest() || after == Waiting {
		in.sup.atRest(in)
	}
}

func (in *instance) perform(effect Effect) {
	switch effect {
	case Spawn:
		if !in.sup.begun {
			in.sup.begun = true
			in.sup.saveSelf()
		}
		in.spawn()
	case AwaitReady:
		in.awaitReady(in.run.startedAt + in.run.program.StartTimeout)
	case Attend:
		in.attend()
	case CallOff:
		// The answer is a step of its own, after this one.
		run := in.run
		run.scope.Post(func() { in.callOff(run) })
	case Clear:
		in.clear()
	case SignalStop:
		in.signalStop()
	case SignalAbort:
		in.send(unix.SIGABRT)
		in.send(unix.SIGCONT)
	case SignalKill:
		in.signalKill()
	case ArmStop:
		in.armStop(in.run.program.StopTimeout)
	case ArmKill:
		in.run.killTimer.Stop() // of another main process
		in.run.killTimer = in.run.life.After(killPause, func() { in.do(in.machine.killDue) })
	case NameStuck:
		in.nameStuck(in.run.process.Pid())
	case EndRun:
		in.endRun()
	case ArmRestart:
		in.armRestart(in.machine.delay)
	case Disarm:
		if in.restartTimer != nil {
			in.restartTimer.Stop()
			in.restartTimer = nil
		}
	}
}

// endedForGood reports whether the instance stays down by itself.
func (in *instance) endedForGood() bool {
	return in.machine.state == Exited || in.machine.state == Failed && in.restartTimer == nil
}

// armStop has StopDue come in a while.
func (in *instance) armStop(patience time.Duration) {
	if patience < 0 || in.sup.inHurry() {
		patience = 0
	}
	r := in.run
	r.stopDeadline = in.sup.loop.Now() + patience
	if r.stopLimit == 0 {
		r.stopLimit = in.sup.loop.Now() + maxExtension*r.program.StopTimeout
	}
	r.stopTimer = r.life.After(patience, func() { in.do(in.machine.stopDue) })
}

// armRestart has RestartDue come in a while.
func (in *instance) armRestart(delay time.Duration) {
	in.restartTimer = in.scope.After(max(delay, 0), func() {
		in.restartTimer = nil
		in.do(in.machine.restartDue)
	})
}

// reason tells why the state is what it is.
func (in *instance) reason() string {
	if in.stuck != "" {
		return in.stuck
	}
	if in.awaitsSchedule() {
		return in.waitCause() + "; " + in.nextRunText()
	}
	if in.machine.state == Waiting {
		return in.waitReason()
	}
	if stage := in.stage(); stage != "" {
		return in.machine.cause + ": " + stage
	}
	return in.machine.cause
}

// stage tells what goes on at the moment, where that is more than the state says.
func (in *instance) stage() string {
	switch r := in.run; {
	case r == nil:
	case in.machine.state == Lingering:
		return "waits until " + in.lastUsers() + " down"
	case r.clearing != nil:
		return r.clearing.stage()
	case r.hook != nil:
		return r.hook.stage()
	case r.begin != nil:
		return "waits for the start before this one, which hangs in " + in.hangsIn
	case r.pending != nil:
		return r.pending.Stage()
	case r.readiness != nil:
		return "not ready yet: " + r.readiness.stage()
	case r.leaving != nil && in.machine.state == Running:
		return "it is about to end by itself"
	case r.reloading != nil && in.machine.state == Running:
		return "it reads its configuration anew"
	case r.monitor != nil && r.monitor.healthy() != nil && !*r.monitor.healthy():
		return r.monitor.complaint()
	}
	return ""
}
