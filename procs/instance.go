package procs

import (
	"path/filepath"
	"time"

	"superd/config"
	"superd/logs"
	"superd/loop"
)

// An instance is one instance of a program: its machine, and what the machine's effects are done to.
type instance struct {
	sup     *Supervisor
	name    string
	program *config.Program
	scope   *loop.Scope // until the instance is removed
	machine *machine
	capture *logs.Capture
	tree    Tree
	run     *run // the present run; nil at rest and in back-off

	restartTimer *loop.Timer // pending RestartDue; nil without one
	runShown     func()      // tells who shows the lines that a run is over; may be nil
	cancelLines  func()      // ends the reports of new lines; nil while nobody watches
	sinceAt      time.Duration
	lastExit     *ExitStatus
	lastExitAt   time.Duration
	stuck        string // names the processes that SIGKILL did not end
	hanging      int    // workers that were called off and have not come back
	hangsIn      string // what the last of them hangs in
	waiters      []*waiter

	removed   bool            // goes away when it is at rest
	departing bool            // it is, and its last output is being written
	next      *config.Program // takes its place then, where the program was added again meanwhile
	nextWish  *wish           // what the operator wants of next; nil: nothing in particular
	followers []func()        // bring those who wait for its log file
}

func (s *Supervisor) newInstance(name string, program *config.Program) *instance {
	in := &instance{
		sup:     s,
		name:    name,
		program: program,
		scope:   s.scope.Child(),
		machine: newMachine(program, s.rng),
		tree:    s.system.NewTree(name),
		sinceAt: s.loop.Now(),
	}
	s.counts[Stopped]++
	in.capture = s.store.NewCapture(in.scope, name, s.logOptions(name, program))
	if s.options.OnCapture != nil {
		in.runShown = s.options.OnCapture(in.capture)
	}
	s.watchLines(in)
	return in
}

func (s *Supervisor) fifo(instance string) string {
	return filepath.Join(s.options.RuntimeDir, fifoDir, instance)
}

func (s *Supervisor) logOptions(instance string, p *config.Program) logs.Options {
	return logs.Options{Path: p.LogPath(s.options.LogDir, instance), MaxSize: p.Log.MaxSize, Keep: p.Log.Keep}
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
	if before.String() != after.String() || after == Spawning {
		in.sinceAt = in.sup.loop.Now()
	}
	if before != after {
		in.sup.log.Debug("state changed", "instance", in.name, "from", before.String(), "to", after.String(), "reason", in.machine.cause)
		in.recordState(before)
	}
	in.settleWaiters()
	in.sup.changed()
	if before != after && (after == Exited || after == Failed && in.restartTimer == nil) {
		in.sup.endedForGood(in)
	}
	if after.AtRest() {
		in.sup.atRest(in)
	}
}

func (in *instance) perform(effect Effect) {
	switch effect {
	case Spawn:
		in.sup.begun = true
		in.spawn()
	case CallOff:
		// The answer is a step of its own, after this one.
		run := in.run
		run.scope.Post(func() { in.callOff(run) })
	case Clear:
		in.clear()
	case SignalStop:
		in.signalStop()
	case SignalKill:
		in.signalKill()
	case ArmStop:
		patience := in.run.program.StopTimeout
		if in.sup.inHurry() {
			patience = 0
		}
		in.run.stopDeadline = in.sup.loop.Now() + patience
		in.run.stopTimer = in.run.life.After(patience, func() { in.do(in.machine.stopDue) })
	case ArmKill:
		in.run.life.After(killPause, func() { in.do(in.machine.killDue) })
	case NameStuck:
		in.nameStuck(in.run.process.Pid())
	case EndRun:
		in.endRun()
	case ArmRestart:
		in.restartTimer = in.scope.After(in.machine.delay, func() {
			in.restartTimer = nil
			in.do(in.machine.restartDue)
		})
	case Disarm:
		if in.restartTimer != nil {
			in.restartTimer.Stop()
			in.restartTimer = nil
		}
	}
}

// reason tells why the state is what it is.
func (in *instance) reason() string {
	if in.stuck != "" {
		return in.stuck
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
	case r.clearing != nil:
		return r.clearing.stage()
	case r.hook != nil:
		return r.hook.stage()
	case r.begin != nil:
		return "waits for the start before this one, which hangs in " + in.hangsIn
	case r.pending != nil:
		return r.pending.Stage()
	}
	return ""
}
