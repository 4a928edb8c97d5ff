package procs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/host"
	"superd/procs/instance"
	"superd/procs/instance/paths"
	"superd/procs/reaper"
	"superd/procs/snapshot"
	"superd/procs/sockets"
)

// A recovery restores what a predecessor has left: instances, processes, FIFOs and stored
// descriptors. It only orchestrates.
type recovery struct {
	*platform
	registry   *registry
	recorder   *handover.Recorder
	fds        *handover.FDKeeper
	reaper     *reaper.Reaper
	config     *configState
	conflicts  *conflicts
	shutdown   *shutdown
	exitPolicy *exitPolicy
	replicas   *replicas
	applier    *applier
	self       *selfRecord
	sockets    *sockets.Set
	onRest     func(*instance.Instance) // see [instanceOwner.onRest]

	leftovers map[string][]host.Leftover // processes of unknown runs, by instance
	// Runs whose started processes a damaged journal may not have
	uncertainRuns map[string]bool
}

// removeOldNames removes the FIFOs and notify sockets that belong to no instance. They exist if
// superd was killed while it removed them, or if the journal does not have their instance. It is
// called before the first start.
func (c *recovery) removeOldNames() {
	var keep []string
	for _, in := range c.registry.instances {
		keep = append(keep, c.Paths.Runtime(in.Name)...)
	}
	c.Host.RemoveOtherNames([]string{c.options.Paths.FIFODir, c.options.Paths.NotifyDir}, keep)
}

// mergeRecords creates the instances that the journal has, each from its record and its newest
// start record.
func (c *recovery) mergeRecords(r *snapshot.Snapshot) []*instance.Recovered {
	var all []*instance.Recovered
	for _, name := range r.Names() {
		v := r.Merge(name, c.config.active)
		program, unknown := v.Program, v.Program == nil
		if unknown && r.Superd.Ended {
			// The operator's stop ends with the program, as at a reload
			r.Obsolete = append(r.Obsolete, snapshot.InstanceKey(name))
			continue
		}
		if unknown {
			program = config.DefaultProgram(config.ProgramOf(name))
			c.Log.Warn("program is in no configuration: stopping it with default settings", "instance", name)
		}
		in := c.replicas.newInstance(name, program, v.RunDefinition(program), v.Tree)
		in.Marks.TreeRecovered = true
		if v.Removed || unknown {
			in.Membership.Update(fsm.Retire)
		}
		in.Restore(v.Instance)
		in.Node.Publish()
		c.registry.add(in)
		all = append(all, &instance.Recovered{In: in, Saved: v})
	}
	runs := map[*instance.Instance]bool{}
	for _, a := range all {
		runs[a.In] = a.Saved.Run != nil
	}
	// find blocks the instance that it looks at first, so those that run come last
	for _, hasRun := range []bool{false, true} {
		for _, in := range c.registry.instances {
			if runs[in] == hasRun {
				c.conflicts.find(in)
			}
		}
	}
	return all
}

// search finds processes whose start record has no pid, and processes of runs that the journal does
// not have.
func (c *recovery) search(r *snapshot.Snapshot, all []*instance.Recovered) error {
	var lookup []*host.LookupRequest
	quarantined := false
	byRequest := map[*host.LookupRequest]*instance.Recovered{}
	for _, a := range all {
		p, start := a.Saved.Process(), a.Saved.Start
		quarantined = quarantined || a.Saved.Quarantined
		switch {
		case p != nil || start == nil:
		case c.uncertainRuns[start.Run]:
			a.ProcessMissing = true // the processes of the run are leftover processes
		default:
			w := &host.LookupRequest{Instance: a.In.Name, Run: start.Run, After: start.After}
			lookup, byRequest[w] = append(lookup, w), a
		}
	}
	if len(lookup) == 0 && !quarantined {
		return nil
	}
	leftovers, err := c.Host.Search(lookup, c.runs(r), c.usersOf(r))
	if err != nil {
		return fmt.Errorf("find processes of the predecessor: %w", err)
	}
	for w, a := range byRequest {
		a.ProcessMissing = w.Found == pidfd.Identity{}
		if !a.ProcessMissing {
			a.Saved.Start.Process = snapshot.NewProcess(w.Found, "")
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
func (c *recovery) reopen(all []*instance.Recovered) error {
	var processes []*host.RecoveredProcess
	for _, a := range all {
		definition := a.Saved.RunDefinition(a.In.Program)
		recovered := &host.RecoveredProcess{Instance: a.In.Name, Program: definition, Tree: a.In.Tree, PidFD: -1, NotifyFD: -1, ReadyFD: -1}
		a.Recovered = recovered
		p := a.Saved.Process()
		if p != nil {
			recovered.Process = p.Identity()
			recovered.PidFD = c.fds.Claim(p.FDName)
		}
		a.ClaimNotifyFDs()
		exists, fdNames := a.Saved.FIFOs()
		if a.Saved.Start != nil && a.Saved.Output && len(paths.OutputStreams(definition)) > 1 {
			// Created together with that for standard output, which Merge has set
			exists[logs.Stderr] = true
		}
		if a.Saved.Start != nil && a.Saved.Output && a.In.IsLogger() {
			exists[paths.LoggerInput] = true // likewise
		}
		for which, is := range exists {
			if !is {
				continue
			}
			o := host.RecoveredOutput{Stream: logs.Stream(which), FIFO: c.Paths.FIFO(a.In.Name, logs.Stream(which)), ReadFD: c.fds.Claim(fdNames[which])}
			o.Gap = o.ReadFD < 0
			if o.Gap && o.Stream == paths.LoggerInput && !a.In.IsLogger() {
				continue // a terminal ends with the last process that holds its master
			}
			a.OutputGap = a.OutputGap || o.Gap && o.Stream != paths.LoggerInput
			recovered.Outputs = append(recovered.Outputs, o)
		}
		if p != nil || len(recovered.Outputs) > 0 {
			processes = append(processes, recovered)
		}
	}
	c.Host.Adopt(processes)
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
			c.Host.CloseFD(recovered.NotifyFD)
			c.Host.CloseFD(recovered.ReadyFD)
			for _, o := range recovered.Outputs {
				c.Host.CloseFD(o.ReadFD)
			}
		}
		return errors.Join(errs...)
	}
	c.fds.DiscardInherited() // no record refers to them
	outputLost := false
	for _, a := range all {
		a.RestoreOutput()
		outputLost = a.RecordOutputLoss() || outputLost
	}
	if outputLost && c.options.Events != nil {
		// Before the journal forgets it: a successor would not know
		ctx, cancel := context.WithTimeout(context.Background(), eventLogTimeout)
		defer cancel()
		if err := c.options.Events.Flush(ctx); err != nil {
			c.Log.Warn("dropped output not recorded in time", "error", err)
		}
	}
	return nil
}

// eventLogTimeout bounds how long a recovery waits for the event log.
const eventLogTimeout = time.Second

// UsersOf returns the users as which the instance's program runs in a configuration: one, or none
// if the program is not configured or runs as superd's user.
func UsersOf(conf *config.Config, instance string) []string {
	if p := conf.Program(config.ProgramOf(instance)); p != nil && p.User != "" {
		return []string{p.User}
	}
	return nil
}

// usersOf returns a function that returns the users as which an instance's program may run, in any
// known configuration.
func (c *recovery) usersOf(r *snapshot.Snapshot) func(instance string) []string {
	all := append(slices.Collect(maps.Values(r.Configs)), c.config.active)
	return func(instance string) (users []string) {
		for _, conf := range all {
			users = append(users, UsersOf(conf, instance)...)
		}
		if v := r.Instances[instance]; v != nil {
			for _, p := range []*config.Program{v.Definition, v.RunDefinition(nil)} {
				if p != nil && p.User != "" {
					users = append(users, p.User)
				}
			}
		}
		return users
	}
}
