package procs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
)

// A recovery restores what a predecessor has left: instances, processes, FIFOs and stored
// descriptors. It only orchestrates, and calls back into the supervisor, since it concerns all
// parts.
type recovery struct {
	*platform
	sup       *Supervisor
	leftovers map[string][]host.Leftover // processes of unknown runs, by instance
}

func newRecovery(s *Supervisor) *recovery {
	return &recovery{platform: s.platform, sup: s, leftovers: map[string][]host.Leftover{}}
}

// A recoveredInstance is what is known about an instance before it is resumed.
type recoveredInstance struct {
	in             *instance
	saved          *savedInstance
	incomplete     bool // the instance's record lacks part of saved
	recovered      *host.RecoveredProcess
	recordedBefore eventlog.Recorded
	processMissing bool // no process was found for its start record
	outputGap      bool // no process had the read end of one of its FIFOs for some time
	notifyResumed  bool // notifications of its main process are handled
	fdRenamed      bool // a stored descriptor has another name than in the record
}

// Adopt recovers the instances and processes of a predecessor. It is called before the loop runs
// and before Start. After an error nothing has changed, and nothing must be started.
func (s *Supervisor) Adopt() error {
	r := s.options.Snapshot
	if r == nil {
		s.recovery.removeOldNames()
		return nil
	}
	s.recorder.starts = r.lastStart
	maps.Copy(s.schedules.saved, r.schedules)
	s.config.number, s.config.before = r.self.Config, r.self.Before
	known := r.configs[r.oldest()]
	if known != nil {
		s.config.active = known
	}
	if sh := r.self.Shutdown; sh != nil && s.options.Resumed {
		s.shutdown.begun, s.shutdown.why = true, sh.Why.Restore()
		s.shutdown.requestedAt, s.shutdown.hurry = sh.RequestedAt, sh.Hurry
		s.exitPolicy.status, s.exitPolicy.decided = sh.Status, sh.Status != 0
	}
	s.exitPolicy.begun = r.self.Begun || r.Lives()
	s.fds.inherit(s.options.StoredFDs.Files)
	for _, v := range r.instances {
		s.fds.known(v.FDName)
		s.fds.known(v.StderrFDName)
		s.fds.known(v.InputFDName)
		if p, _ := v.process(); p != nil {
			s.fds.known(p.FDName)
		}
		if v.Run != nil {
			s.fds.known(v.Run.Notify)
			s.fds.known(v.Run.Ready)
		}
	}
	for _, start := range r.starts {
		s.fds.known(start.Notify)
		s.fds.known(start.Ready)
		s.fds.known(start.FDNames[0])
		s.fds.known(start.FDNames[1])
	}
	s.replicas.restoreScales(r)
	if r.Incomplete {
		if err := s.recovery.findUnrecorded(r); err != nil {
			return err
		}
	}
	all := s.recovery.mergeRecords(r)
	if err := s.recovery.search(r, all); err != nil {
		return err
	}
	if err := s.recovery.reopen(all); err != nil {
		return err
	}
	if r.self.Shutdown != nil && !s.shutdown.begun {
		// First: if superd is killed now, a supervisor that the keeper starts must not resume the
		// shutdown.
		if err := s.recorder.journal.Put(superdKey, s.savedSelf()); err != nil {
			s.log.Warn("end of the shutdown not recorded", "error", err)
		}
	}
	if known == nil {
		s.config.activateFirst()
	} else {
		s.saveSelf()
	}
	s.recovery.removeOldNames()
	s.recovery.resume(all)
	return nil
}

// removeOldNames removes the FIFOs and notify sockets that belong to no instance: superd was killed
// while it removed them, or the journal does not have their instance. It precedes the first start.
func (c *recovery) removeOldNames() {
	var keep []string
	for _, in := range c.sup.registry.instances {
		keep = append(keep, in.runtimePaths()...)
	}
	c.host.RemoveOtherNames([]string{c.options.FIFODir, c.options.NotifyDir}, keep)
}

// mergeRecords creates the instances that the journal has, each from its record and its newest
// start record.
func (c *recovery) mergeRecords(r *Snapshot) []*recoveredInstance {
	var all []*recoveredInstance
	for _, name := range slices.Sorted(maps.Keys(r.instanceNames())) {
		current := c.sup.config.active.Program(programOf(name))
		start, number, startProgram := r.starts[name], r.oldest(), current
		if start != nil && r.configs[start.Config] != nil {
			// Configuration with which it was started
			number, startProgram = start.Config, r.configs[start.Config].Program(programOf(name))
		}
		v := merge(r.instances[name], start, startProgram != nil && startProgram.Autostart, number)
		if start != nil && v.Run != nil && v.Run.ID == start.Run {
			v.Run.other = start.Config > r.self.Config // by a reload that is not in the journal
		}
		program := v.Definition
		if program == nil {
			program = r.definition(v.Config, name)
		}
		if program == nil {
			program = current
		}
		unknown := program == nil
		if unknown && r.self.Ended {
			// The operator's stop ends with the program, as at a reload
			r.keys = append(r.keys, instanceKey(name))
			continue
		}
		if unknown {
			program = config.DefaultProgram(programOf(name))
			c.log.Warn("program is in no configuration: stopping it with default settings", "instance", name)
		}
		// The run is newer than the instance's record
		if v != r.instances[name] && v.Run.Definition == nil && start.Config != v.Config && r.configs[start.Config] != nil {
			if definition := r.configs[start.Config].Program(program.Name); definition != nil && definition != program {
				v.Run.Definition = validDefinition(definition)
			}
		}
		in := c.sup.newInstance(name, program, v.runDefinition(program), v.Tree)
		in.treeRecovered = true
		if v.Removed || unknown {
			in.membership = in.membership.After(fsm.Retire)
		}
		in.restore(v)
		in.publish()
		c.sup.registry.add(in)
		all = append(all, &recoveredInstance{in: in, saved: v, incomplete: v != r.instances[name]})
	}
	for _, in := range c.sup.registry.instances {
		in.sup.conflicts.find(in)
	}
	return all
}

// runDefinition returns the definition with which the run began, if it is recorded; otherwise own,
// that of the instance.
func (v *savedInstance) runDefinition(own *config.Program) *config.Program {
	if v.Run != nil && v.Run.Definition != nil {
		return v.Run.Definition
	}
	return own
}

// restore sets the state of the machine and the instance, without processes.
func (in *instance) restore(v *savedInstance) {
	m := &in.machine
	m.Restore(v.machine(), v.Run != nil)
	in.sinceAt, in.lastCompletedStart = v.Since, v.LastCompletedStart
	if v.Schedule != nil {
		in.schedule = &scheduleState{saved: v.Schedule, dueFor: v.DueFor, skipped: v.Skipped}
	}
	if w := v.ReplacementTarget; w != nil {
		in.replacementTarget = new(w.Restore())
	}
	if e := v.Exit; e != nil {
		in.lastExit = &ExitStatus{Known: e.Known, Code: e.Code, signal: e.Signal, at: e.At}
		if e.Signal != 0 {
			in.lastExit.Signal = signalName(syscall.Signal(e.Signal))
		}
	}
}

// process returns the process of the run that may live, and the start record if only that has it.
func (v *savedInstance) process() (p *savedProcess, start *savedStart) {
	r := v.Run
	switch {
	case r == nil || r.ended && r.Hook == nil:
		return nil, nil
	case r.Hook != nil:
		p, start = r.Hook.Process, r.Hook.start
	default:
		p, start = r.Main, r.start
	}
	if p == nil && start != nil {
		p = start.Process
	}
	return p, start
}

// search finds processes whose start record has no pid, and processes of runs that the journal does
// not have.
func (c *recovery) search(r *Snapshot, all []*recoveredInstance) error {
	var lookup []*host.LookupRequest
	quarantined := false
	byRequest := map[*host.LookupRequest]*recoveredInstance{}
	for _, a := range all {
		p, start := a.saved.process()
		quarantined = quarantined || a.saved.Quarantined
		if p == nil && start != nil {
			w := &host.LookupRequest{Instance: a.in.name, Run: start.Run, After: start.After}
			lookup, byRequest[w] = append(lookup, w), a
		}
	}
	if len(lookup) == 0 && !quarantined {
		return nil
	}
	leftovers, err := c.host.Search(lookup, r.runs(), c.usersOf(r))
	if err != nil {
		return fmt.Errorf("find processes of the predecessor: %w", err)
	}
	for w, a := range byRequest {
		a.processMissing = w.Found == pidfd.Identity{}
		if !a.processMissing {
			_, start := a.saved.process()
			start.Process = savedIdentity(w.Found, "")
		}
	}
	c.setLeftovers(leftovers)
	return nil
}

func (c *recovery) setLeftovers(leftovers []host.Leftover) {
	clear(c.leftovers)
	for _, leftover := range leftovers {
		c.leftovers[leftover.Instance] = append(c.leftovers[leftover.Instance], leftover)
	}
}

// runs returns the runs in the journal. Processes of any other run are leftover processes.
func (r *Snapshot) runs() map[string]bool {
	runs := map[string]bool{}
	for _, v := range r.instances {
		if v.Run != nil && !r.uncertainRuns[v.Run.ID] {
			runs[v.Run.ID] = true
		}
	}
	for _, start := range r.starts {
		if !r.uncertainRuns[start.Run] {
			runs[start.Run] = true
		}
	}
	return runs
}

// reopen reopens the processes, FIFOs and sockets of the instances.
func (c *recovery) reopen(all []*recoveredInstance) error {
	var processes []*host.RecoveredProcess
	for _, a := range all {
		definition := a.saved.runDefinition(a.in.program)
		recovered := &host.RecoveredProcess{Instance: a.in.name, Program: definition, Tree: a.in.tree, PidFD: -1, NotifyFD: -1, ReadyFD: -1}
		a.recovered = recovered
		p, _ := a.saved.process()
		if p != nil {
			recovered.Process = p.identity()
			recovered.PidFD = c.sup.fds.claim(p.FDName)
		}
		a.claimNotifyFDs()
		exists, fdNames := a.saved.fifos()
		if a.incomplete && a.saved.Output && len(streamsOf(definition)) > 1 {
			// Created together with that for standard output, which merge has set
			exists[logs.Stderr] = true
		}
		if a.incomplete && a.saved.Output && a.in.isLogger() {
			exists[input] = true // likewise
		}
		for which, is := range exists {
			if !is {
				continue
			}
			o := host.RecoveredOutput{Stream: logs.Stream(which), FIFO: c.fifoPath(a.in.name, logs.Stream(which)), ReadFD: c.sup.fds.claim(fdNames[which])}
			o.Gap = o.ReadFD < 0
			a.outputGap = a.outputGap || o.Gap && o.Stream != input
			recovered.Outputs = append(recovered.Outputs, o)
		}
		if p != nil || len(recovered.Outputs) > 0 {
			processes = append(processes, recovered)
		}
	}
	c.host.Adopt(processes)
	var errs []error
	for _, recovered := range processes {
		if recovered.Err != nil {
			errs = append(errs, fmt.Errorf("adopt %s: %w", recovered.Instance, recovered.Err))
		}
	}
	if len(errs) > 0 {
		for _, recovered := range processes {
			if recovered.Found != nil {
				recovered.Found.Close()
			}
			c.host.CloseFD(recovered.NotifyFD)
			c.host.CloseFD(recovered.ReadyFD)
			for _, o := range recovered.Outputs {
				c.host.CloseFD(o.ReadFD)
			}
		}
		return errors.Join(errs...)
	}
	c.sup.fds.discardInherited() // no record refers to them
	outputLost := false
	for _, a := range all {
		c.attachAdopted(a)
		outputLost = a.recordOutputLoss() || outputLost
	}
	if outputLost && c.options.Events != nil {
		// Before the journal forgets it: a successor would not know
		ctx, cancel := context.WithTimeout(context.Background(), eventLogTimeout)
		defer cancel()
		if err := c.options.Events.Flush(ctx); err != nil {
			c.log.Warn("dropped output not recorded in time", "error", err)
		}
	}
	return nil
}

// claimNotifyFDs claims the notify socket and the readiness pipe of the main process.
func (a *recoveredInstance) claimNotifyFDs() {
	r, in, recovered := a.saved.Run, a.in, a.recovered
	if r == nil || !in.machine.State().Lives() && r.start == nil {
		return // there is no main process
	}
	if r.start != nil {
		r.Notify, r.Ready = r.start.Notify, r.start.Ready
	}
	p := in.program
	if r.Definition != nil {
		p = r.Definition
	}
	if recovered.NotifySocket = in.notifySocketPath(p); recovered.NotifySocket != "" {
		recovered.NotifyFD = in.sup.fds.claim(r.Notify)
	}
	if p.Ready != nil && p.Ready.FD != 0 && (in.machine.State() == fsm.Starting || in.machine.State() == fsm.Spawning) {
		recovered.ReadyNumber, recovered.ReadyFD = p.Ready.FD, in.sup.fds.claim(r.Ready)
	}
}

// eventLogTimeout bounds how long a recovery waits for the event log.
const eventLogTimeout = time.Second

// attachAdopted attaches the read ends of the instance's FIFOs to its collector.
func (c *recovery) attachAdopted(a *recoveredInstance) {
	in, recovered := a.in, a.recovered
	_, fdNames := a.saved.fifos()
	if a.saved.Run != nil {
		program := in.program
		if a.saved.Run.Definition != nil {
			program = a.saved.Run.Definition
		}
		var unknownStart []logs.Stream
		if r := a.saved.Run; r.ReadyAt == 0 && awaitsLine(program) {
			for which, from := range [...]string{logs.Stdout: r.PrintsFrom, logs.Stderr: r.StderrFrom} {
				if from == "" {
					unknownStart = append(unknownStart, logs.Stream(which))
				}
			}
		}
		in.collector.ResumeRun(a.saved.Run.ID, unknownStart...)
	}
	if d := a.saved.Dropped; d != nil {
		in.collector.RestoreDrops(*d)
	}
	for _, o := range recovered.Outputs {
		if o.Err != nil {
			in.ownProblems().noOutput = o.Err.Error()
			if recovered.Found != nil {
				c.log.Error("output not captured", "instance", in.name, "error", o.Err)
			}
		}
		if o.ReadFD < 0 {
			continue
		}
		name := fdNames[o.Stream]
		if o.Gap {
			name, a.fdRenamed = c.sup.fds.storeFD(o.ReadFD, true), true
		}
		if o.Stream == input {
			in.setInput(o.ReadFD, name)
			continue
		}
		in.fifoNames[o.Stream] = fdNameOf(name)
		if err := in.collector.Attach(o.Stream, o.ReadFD); err != nil {
			c.log.Error("output not captured", "instance", in.name, "error", err)
		}
	}
	if !a.outputGap && a.saved.Drain != "" {
		in.drain(a.saved.Drain)
	}
}

// recordOutputLoss records that output may be lost, and reports whether it may: a process ended
// while nothing had the read end of its pipe open, or before the pipe was empty.
func (a *recoveredInstance) recordOutputLoss() bool {
	if !a.outputGap {
		return false
	}
	var runs []string
	if p, start := a.saved.process(); (p != nil || start != nil) && a.recovered.Ended {
		runs = append(runs, a.saved.Run.ID)
		a.in.ownProblems().exitNote = fsm.Reason{Kind: fsm.ReasonOutputLost}
	}
	if a.saved.Drain != "" {
		runs = append(runs, a.saved.Drain)
	}
	for _, run := range runs {
		a.in.record(because(eventlog.Event{Kind: eventlog.Output, Run: run},
			fsm.Reason{Kind: fsm.ReasonOutputLost}))
	}
	return len(runs) > 0
}
