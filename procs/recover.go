package procs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/snapshot"
)

// A recovery restores what a predecessor has left: instances, processes, FIFOs and stored
// descriptors. It only orchestrates, and calls back into the supervisor, since it concerns all
// parts.
type recovery struct {
	*platform
	sup       *Supervisor
	leftovers map[string][]host.Leftover // processes of unknown runs, by instance
	// Runs whose started processes a damaged journal may not have
	uncertainRuns map[string]bool
}

func newRecovery(s *Supervisor) *recovery {
	return &recovery{platform: s.platform, sup: s, leftovers: map[string][]host.Leftover{}}
}

// A recoveredInstance is what is known about an instance before it is resumed.
type recoveredInstance struct {
	in             *instance
	saved          snapshot.Merged
	recovered      *host.RecoveredProcess
	recordedBefore eventlog.Recorded
	processMissing bool // no process was found for its start record
	outputGap      bool // for some time, no process had the read end of one of its FIFOs open
	notifyResumed  bool // notifications of its main process are handled
	fdRenamed      bool // a stored descriptor has another name than in the record
}

// Adopt recovers the instances and processes of a predecessor. It is called before the loop runs
// and before Start. After an error nothing has changed, and nothing must be started.
func (s *Supervisor) Adopt() error {
	r := s.options.Predecessor.Snapshot
	if r == nil {
		s.recovery.removeOldNames()
		return nil
	}
	known := s.restore(r)
	s.fds.inherit(s.options.Predecessor.StoredFDs.Files)
	for _, name := range r.FDNames() {
		s.fds.known(name)
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
	if r.Superd.Shutdown != nil && !s.shutdown.begun {
		// The shutdown is undone. This is recorded first: if superd is killed now, the keeper
		// starts another supervisor, which must not resume the shutdown.
		if err := s.recorder.journal.Put(snapshot.SuperdKey, s.snapshot()); err != nil {
			s.log.Warn("end of the shutdown not recorded", "error", err)
		}
	}
	if known {
		s.saveSelf()
	} else {
		s.config.activateFirst()
	}
	s.recovery.removeOldNames()
	s.recovery.resume(all)
	return nil
}

// removeOldNames removes the FIFOs and notify sockets that belong to no instance. They exist if
// superd was killed while it removed them, or if the journal does not have their instance. It is
// called before the first start.
func (c *recovery) removeOldNames() {
	var keep []string
	for _, in := range c.sup.registry.instances {
		keep = append(keep, in.runtimePaths()...)
	}
	c.host.RemoveOtherNames([]string{c.options.Paths.FIFODir, c.options.Paths.NotifyDir}, keep)
}

// mergeRecords creates the instances that the journal has, each from its record and its newest
// start record.
func (c *recovery) mergeRecords(r *snapshot.Snapshot) []*recoveredInstance {
	var all []*recoveredInstance
	for _, name := range r.Names() {
		v := r.Merge(name, c.sup.config.active)
		program, unknown := v.Program, v.Program == nil
		if unknown && r.Superd.Ended {
			// The operator's stop ends with the program, as at a reload
			r.Obsolete = append(r.Obsolete, snapshot.InstanceKey(name))
			continue
		}
		if unknown {
			program = config.DefaultProgram(config.ProgramOf(name))
			c.log.Warn("program is in no configuration: stopping it with default settings", "instance", name)
		}
		in := c.sup.newInstance(name, program, v.RunDefinition(program), v.Tree)
		in.treeRecovered = true
		if v.Removed || unknown {
			in.membership = in.membership.After(fsm.Retire)
		}
		in.restore(v.Instance)
		in.publish()
		c.sup.registry.add(in)
		all = append(all, &recoveredInstance{in: in, saved: v})
	}
	for _, in := range c.sup.registry.instances {
		in.sup.conflicts.find(in)
	}
	return all
}

// search finds processes whose start record has no pid, and processes of runs that the journal does
// not have.
func (c *recovery) search(r *snapshot.Snapshot, all []*recoveredInstance) error {
	var lookup []*host.LookupRequest
	quarantined := false
	byRequest := map[*host.LookupRequest]*recoveredInstance{}
	for _, a := range all {
		p, start := a.saved.Process(), a.saved.Start
		quarantined = quarantined || a.saved.Quarantined
		switch {
		case p != nil || start == nil:
		case c.uncertainRuns[start.Run]:
			a.processMissing = true // the processes of the run are leftover processes
		default:
			w := &host.LookupRequest{Instance: a.in.name, Run: start.Run, After: start.After}
			lookup, byRequest[w] = append(lookup, w), a
		}
	}
	if len(lookup) == 0 && !quarantined {
		return nil
	}
	leftovers, err := c.host.Search(lookup, c.runs(r), c.usersOf(r))
	if err != nil {
		return fmt.Errorf("find processes of the predecessor: %w", err)
	}
	for w, a := range byRequest {
		a.processMissing = w.Found == pidfd.Identity{}
		if !a.processMissing {
			a.saved.Start.Process = snapshotIdentity(w.Found, "")
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

// runs returns the runs that the journal has for certain. Processes of any other run are leftover
// processes.
func (c *recovery) runs(r *snapshot.Snapshot) map[string]bool {
	runs := r.Runs()
	for run := range c.uncertainRuns {
		delete(runs, run)
	}
	return runs
}

// reopen reopens the processes, FIFOs and sockets of the instances.
func (c *recovery) reopen(all []*recoveredInstance) error {
	var processes []*host.RecoveredProcess
	for _, a := range all {
		definition := a.saved.RunDefinition(a.in.program)
		recovered := &host.RecoveredProcess{Instance: a.in.name, Program: definition, Tree: a.in.tree, PidFD: -1, NotifyFD: -1, ReadyFD: -1}
		a.recovered = recovered
		p := a.saved.Process()
		if p != nil {
			recovered.Process = restoreIdentity(p)
			recovered.PidFD = c.sup.fds.claim(p.FDName)
		}
		a.claimNotifyFDs()
		exists, fdNames := a.saved.FIFOs()
		if a.saved.Start != nil && a.saved.Output && len(streamsOf(definition)) > 1 {
			// Created together with that for standard output, which Merge has set
			exists[logs.Stderr] = true
		}
		if a.saved.Start != nil && a.saved.Output && a.in.isLogger() {
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
		a.restoreOutput()
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

// mainStart returns the start record of the main process; nil if there is none, or if the record of
// the instance has the result of that start.
func (a *recoveredInstance) mainStart() *snapshot.Start {
	if start := a.saved.Start; start != nil && start.Hook == nil {
		return start
	}
	return nil
}

// claimNotifyFDs claims the notify socket and the readiness pipe of the main process.
func (a *recoveredInstance) claimNotifyFDs() {
	r, in, recovered := a.saved.Run, a.in, a.recovered
	if r == nil || !in.machine.State().Lives() && a.mainStart() == nil {
		return // there is no main process
	}
	p := a.saved.RunDefinition(in.program)
	if recovered.NotifySocket = in.notifySocketPath(p); recovered.NotifySocket != "" {
		recovered.NotifyFD = in.sup.fds.claim(r.Notify)
	}
	if p.Ready != nil && p.Ready.FD != 0 && (in.machine.State() == fsm.Starting || in.machine.State() == fsm.Spawning) {
		recovered.ReadyNumber, recovered.ReadyFD = p.Ready.FD, in.sup.fds.claim(r.Ready)
	}
}

// eventLogTimeout bounds how long a recovery waits for the event log.
const eventLogTimeout = time.Second

// recordOutputLoss records output that may be lost, and reports whether any may be. That is so if
// a process ended, or the output of an ended run was not written yet, while nothing had the read
// end of its pipe open.
func (a *recoveredInstance) recordOutputLoss() bool {
	if !a.outputGap {
		return false
	}
	var runs []string
	if (a.saved.Process() != nil || a.saved.Start != nil) && a.recovered.Ended {
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
