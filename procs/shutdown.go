package procs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/handover"
	"superd/procs/instance"
	"superd/procs/instance/paths"
	"superd/procs/reaper"
	"superd/procs/snapshot"
)

// drainLimit bounds how long a shutdown waits for output that is still in the pipes.
const drainLimit = 2 * time.Second

// A shutdown stops all instances, ends unattributed processes, and waits for the last output. It
// lasts from the first request to the end of superd.
type shutdown struct {
	*platform
	registry *registry
	recorder *handover.Recorder
	reaper   *reaper.Reaper
	saveSelf func() // queues superd's own record, which has the shutdown
	saveEnd  func() // queues the last records
	onEnd    func() // runs at the end; nil before the start

	begun bool
	why   fsm.Reason
	// Time of the first request by a person; 0: a program has caused the shutdown
	requestedAt        time.Duration
	earlyRequestLogged bool // a second request came too early, and that was logged
	hurry              bool // a second request ended the stop time-outs
	// All programs are at rest, and their last output is being written
	draining bool

	eviction *reaper.Eviction // ends unattributed processes; nil before

	// Instances at rest whose cgroup and FIFOs are about to be removed
	pendingRemovals []*instance.Instance

	stopQueue []*instance.Instance // instances that are not requested to stop yet
	resumed   bool                 // a predecessor has requested some instances to stop
}

// newShutdown returns a shutdown that has not begun.
func newShutdown(p *platform, reg *registry, rec *handover.Recorder, re *reaper.Reaper, saveSelf, saveEnd func()) *shutdown {
	return &shutdown{
		platform: p, registry: reg, recorder: rec, reaper: re, saveSelf: saveSelf, saveEnd: saveEnd,
	}
}

// snapshot returns the snapshot of the shutdown, without the exit status; nil before it begins.
func (d *shutdown) snapshot() *snapshot.Shutdown {
	if !d.begun {
		return nil
	}
	return &snapshot.Shutdown{Why: d.why.Snapshot(), RequestedAt: d.requestedAt, Hurry: d.hurry}
}

// restore sets the shutdown to a snapshot; nil: it has not begun.
func (d *shutdown) restore(v *snapshot.Shutdown) {
	if v != nil {
		d.begun, d.why, d.requestedAt, d.hurry = true, v.Why.Restore(), v.RequestedAt, v.Hurry
	}
}

// maxStopBatch bounds how many instances one turn requests to stop. Each of them is signalled in
// that turn.
const maxStopBatch = 128

// secondRequestAfter is how long after the first request to shut down a second one ends the stop
// time-outs. An earlier one repeats the first: timeout(1) signals the process and its process
// group.
const secondRequestAfter = time.Second

// maxNamed bounds how many instances one message names.
const maxNamed = 20

// started reports whether superd has started. Before, a shutdown does not end.
func (d *shutdown) started() bool { return d.onEnd != nil }

// request is [Supervisor.Shutdown].
func (d *shutdown) request(why string) {
	now := max(d.Loop.Now(), 1)
	switch {
	case !d.begun:
		d.begin(fsm.ReasonShutdownRequested.With(why), now)
	case d.requestedAt == 0:
		d.requestedAt = now
		d.saveSelf()
		d.Log.Info("already shutting down", "because", d.why.String(), "request", why)
	case d.hurry:
	case now-d.requestedAt >= secondRequestAfter:
		d.killRemaining(why)
	case !d.earlyRequestLogged:
		d.earlyRequestLogged = true
		d.Log.Info("request to shut down ignored: too soon after the first",
			"because", why, "after", secondRequestAfter)
	}
}

// begin stops all programs. requestedAt is when a person requested that; 0: no person did.
func (d *shutdown) begin(why fsm.Reason, requestedAt time.Duration) {
	d.begun, d.why, d.requestedAt = true, why, requestedAt
	d.saveSelf()
	d.Log.Info("shutting down", "because", why.String())
	d.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Shutdown}, why))
	d.recorder.Write() // Before any signal is sent: a successor must not restart the programs
	d.options.Notify.Stopping()
	d.requestAllStops()
}

// killRemaining ends the stop time-outs of a shutdown, and logs which instances it kills.
func (d *shutdown) killRemaining(why string) {
	d.hurry = true
	d.saveSelf()
	var names []string
	for _, in := range d.registry.instances {
		if in.HasRun() {
			names = append(names, in.Name)
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	killed := strings.Join(names, ", ")
	d.Log.Warn("shutting down at once", "because", why, "killed_early", killed)
	d.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Shutdown},
		fsm.ReasonShutdownHurried.With(why+"; killed early: "+killed)))
	d.recorder.Write()
	for _, in := range d.registry.instances {
		in.Hurry()
	}
	if e := d.eviction; e != nil {
		e.Kill()
	}
}

// resume resumes a shutdown of the predecessor, or begins one that was requested before Start.
func (d *shutdown) resume() {
	d.options.Notify.Stopping()
	d.resumed = true
	d.requestAllStops()
}

// requestAllStops requests every instance to stop. It does so at once for instances with
// dependencies: their order is known only when all of them are wanted down.
func (d *shutdown) requestAllStops() {
	underWay := d.requestingStops()
	var deferred []*instance.Instance
	for _, in := range slices.Clone(d.registry.instances) {
		if in.Node.Linked() {
			d.stopForShutdown(in)
		} else {
			deferred = append(deferred, in)
		}
	}
	d.stopQueue = deferred
	d.reaper.Schedule() // masks SIGCHLD, as many children are about to exit
	if !underWay {
		d.requestStops()
	}
}

// requestStops requests a batch of the queued instances to stop; the others follow in later turns
// and continue until then. If this supervisor is killed, its successor continues, since the journal
// has the shutdown.
func (d *shutdown) requestStops() {
	all := d.stopQueue
	batch := all[:min(len(all), cmp.Or(d.options.tests.stopBatch, maxStopBatch))]
	d.stopQueue = all[len(batch):]
	for _, in := range batch {
		if !in.Closed() {
			d.stopForShutdown(in)
		}
	}
	if len(d.stopQueue) > 0 {
		d.Scope.Post(d.requestStops)
		return
	}
	d.reaper.Schedule() // an earlier reaping may have stopped at a child of one of these
	d.proceed()
}

// requestingStops reports whether some instances are not requested to stop yet. Until then, exits
// are not handled: the sooner the others get their signals, the more of them end together. When all
// have ended, leftover processes need no look-up for each.
func (d *shutdown) requestingStops() bool {
	return len(d.stopQueue) > 0
}

// removeEmpty removes the cgroup and the FIFOs of an instance, if a shutdown has begun and the
// instance is at rest without processes. At the end of the shutdown, a thousand removals would take
// long. It batches the instances of one turn: to wake a worker for each of a thousand takes as long
// as the removal. Output in a FIFO needs no name: it stays while superd or the keeper has the FIFO
// open.
func (d *shutdown) removeEmpty(in *instance.Instance) {
	if !d.begun || !in.Program.KillMode.KillsTree() || in.Quarantined() ||
		!in.Machine.State().AtRest() || !in.Tree.Empty() {
		return
	}
	if d.pendingRemovals = append(d.pendingRemovals, in); len(d.pendingRemovals) > 1 {
		return
	}
	d.Scope.Post(func() {
		var names []string
		for _, in := range d.pendingRemovals {
			in.Tree.Remove()
			for _, which := range paths.OutputStreams(in.Program) {
				names = append(names, d.Env.Paths.FIFO(in.Name, which))
			}
		}
		d.pendingRemovals = nil
		d.Host.RemoveNames(names)
	})
}

// stopForShutdown requests the instance to stop for the shutdown.
func (d *shutdown) stopForShutdown(in *instance.Instance) {
	in.Membership.DropReplacement()
	m := &in.Machine
	if !d.resumed || m.Desired().Up || m.Desired().By.Kind != fsm.ActorShutdown && !m.State().AtRest() {
		in.Apply(m.WantDown(fsm.By(fsm.ActorShutdown), in.Conditions()))
	}
	if d.hurry {
		in.Hurry()
	}
}

// proceed ends superd when all instances are at rest or have an unkillable process.
func (d *shutdown) proceed() {
	if !d.begun || d.requestingStops() || d.draining || !d.started() {
		return
	}
	if d.registry.countAtRest()+d.registry.unkillable < len(d.registry.instances) {
		return
	}
	d.draining = true
	d.evict(d.drainAll)
}

// evict ends the unattributed processes and calls done, perhaps before it returns. If a program's
// kill_mode spares processes, evict ends none, since they may be unattributed now.
func (d *shutdown) evict(done func()) {
	for _, in := range d.registry.instances {
		if mode := in.Program.KillMode; mode == config.KillProcess || mode == config.KillGroup {
			done()
			return
		}
	}
	d.eviction = reaper.NewEviction(d.Host, d.Log, d.Scope.Child(), done)
	d.eviction.Start(d.hurry)
}

// drainAll ends superd when the last output is written, or after drainLimit.
func (d *shutdown) drainAll() {
	waiting := map[*instance.Instance]struct{}{nil: {}}
	ended := false
	drained := func(in *instance.Instance) {
		if delete(waiting, in); len(waiting) == 0 && !ended && !d.Scope.Closed() {
			ended = true
			d.end()
		}
	}
	d.Scope.After(drainLimit, func() {
		if ended {
			return
		}
		ended = true
		for _, in := range d.registry.instances {
			if _, waits := waiting[in]; waits {
				d.Log.Warn("output not written: "+in.Output.UnresponsiveSink(), "instance", in.Name, "waited", drainLimit)
			}
		}
		d.end()
	})
	for _, in := range d.registry.instances {
		// Closing the collector reports output that is lost
		if !in.Output.Collector.DrainedOrFailed(func(error) { drained(in) }) {
			waiting[in] = struct{}{}
		}
	}
	d.Scope.Post(func() { drained(nil) })
}

func (d *shutdown) end() {
	for _, in := range d.registry.instances {
		if in.Unkillable() != "" {
			d.Log.Error("process left behind", "instance", in.Name, "reason", in.Unkillable())
		}
	}
	d.Log.Info("shut down", "because", d.why.String())
	e := eventlog.Event{Kind: eventlog.Superd, State: eventlog.Ended, Pid: d.options.Identity.Pid}
	d.recorder.Record(eventlog.WithReason(e, d.why))
	d.onEnd() // Before saveEnd: with an empty journal a successor would start all programs
	d.saveEnd()
	d.recorder.Write() // now, since the loop ends
}
