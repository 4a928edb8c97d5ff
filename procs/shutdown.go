package procs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"superd/logs"
	"superd/procs/eventlog"
)

// drainLimit bounds how long a shutdown waits for output that is still in the pipes.
const drainLimit = 2 * time.Second

// A shutdown lasts from the first request to the end of superd.
type shutdown struct {
	why Reason
	// Time of the first request by a person; 0: a program has caused the shutdown
	requestedAt        time.Duration
	earlyRequestLogged bool // a second request came too early, and that was logged
	hurry              bool // a second request ended the stop time-outs
	// All programs are at rest, and their last output is being written
	draining bool

	eviction *eviction // ends unattributed processes; nil before

	// Instances at rest whose cgroup and FIFOs are about to be removed
	pendingRemovals []*instance

	stopQueue []*instance // instances that are not requested to stop yet
	resumed   bool        // a predecessor has requested some instances to stop
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

// Shutdown stops every program and then superd, at a person's request. A second request,
// secondRequestAfter or more after the first, kills all processes that are left.
func (s *Supervisor) Shutdown(why string) {
	now := max(s.loop.Now(), 1)
	switch sd := s.shutdown; {
	case sd == nil:
		s.beginShutdown(Reason{ReasonShutdownRequested, why}, now)
	case sd.requestedAt == 0:
		sd.requestedAt = now
		s.saveSelf()
		s.log.Info("already shutting down", "because", sd.why.String(), "request", why)
	case sd.hurry:
	case now-sd.requestedAt >= secondRequestAfter:
		s.killRemaining(why)
	case !sd.earlyRequestLogged:
		sd.earlyRequestLogged = true
		s.log.Info("request to shut down ignored: too soon after the first",
			"because", why, "after", secondRequestAfter)
	}
}

// RequestShutdown is Shutdown with a callback. It calls recorded when the journal has the request,
// after which a successor resumes the shutdown, or with the error. recorded is called once, on any
// goroutine, perhaps before RequestShutdown returns.
func (s *Supervisor) RequestShutdown(why string, recorded func(unrecorded error)) {
	s.Shutdown(why)
	s.recorder.writeEvents()           // events that precede the journal's state are not recorded again
	s.recorder.journal.Flush(recorded) // not through the loop, which may end first
}

// beginShutdown stops all programs. requestedAt is when a person requested that; 0: no person did.
func (s *Supervisor) beginShutdown(why Reason, requestedAt time.Duration) {
	s.shutdown = &shutdown{why: why, requestedAt: requestedAt}
	s.saveSelf()
	s.log.Info("shutting down", "because", why.String())
	s.recorder.record(because(eventlog.Event{Kind: eventlog.Shutdown}, why))
	s.recorder.write() // Before any signal is sent: a successor must not restart the programs
	s.notify.Stopping()
	s.requestAllStops()
}

// killRemaining ends the stop time-outs of a shutdown, and logs which instances it kills.
func (s *Supervisor) killRemaining(why string) {
	s.shutdown.hurry = true
	s.saveSelf()
	var names []string
	for _, in := range s.registry.instances {
		if in.run != nil {
			names = append(names, in.name)
		}
	}
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	killed := strings.Join(names, ", ")
	s.log.Warn("shutting down at once", "because", why, "killed_early", killed)
	s.recorder.record(because(eventlog.Event{Kind: eventlog.Shutdown},
		Reason{ReasonShutdownHurried, why + "; killed early: " + killed}))
	s.recorder.write()
	for _, in := range s.registry.instances {
		in.hurry()
	}
	if e := s.shutdown.eviction; e != nil {
		e.kill()
	}
}

// requestAllStops requests every instance to stop. It does so at once for instances with
// dependencies: their order is known only when all of them are wanted down.
func (s *Supervisor) requestAllStops() {
	underWay := s.requestingStops()
	var deferred []*instance
	for _, in := range slices.Clone(s.registry.instances) {
		if in.hasEdges() {
			in.stopForShutdown()
		} else {
			deferred = append(deferred, in)
		}
	}
	s.shutdown.stopQueue = deferred
	s.reaper.schedule() // masks SIGCHLD, as many children are about to exit
	if !underWay {
		s.requestStops()
	}
}

// requestStops requests a batch of the queued instances to stop; the others follow in later turns
// and continue until then. If this supervisor is killed, its successor continues, since the journal
// has the shutdown.
func (s *Supervisor) requestStops() {
	all := s.shutdown.stopQueue
	batch := all[:min(len(all), cmp.Or(s.options.stopBatch, maxStopBatch))]
	s.shutdown.stopQueue = all[len(batch):]
	for _, in := range batch {
		if !in.scope.Closed() {
			in.stopForShutdown()
		}
	}
	if len(s.shutdown.stopQueue) > 0 {
		s.scope.Post(s.requestStops)
		return
	}
	s.reaper.schedule() // an earlier reaping may have stopped at a child of one of these
	s.continueShutdown()
}

// requestingStops reports whether some instances are not requested to stop yet. Until then, exits
// are not handled: the sooner the others get their signals, the more of them end together. When all
// have ended, leftover processes need no look-up for each.
func (s *Supervisor) requestingStops() bool {
	return s.shutdown != nil && len(s.shutdown.stopQueue) > 0
}

// removeSoon removes the cgroup and the FIFOs of an instance at rest without processes. It batches
// the instances of one turn: to wake a worker for each of a thousand takes as long as the removal.
// Output in a FIFO needs no name: it stays while superd or the keeper has the FIFO open.
func (s *Supervisor) removeSoon(in *instance) {
	if s.shutdown.pendingRemovals = append(s.shutdown.pendingRemovals, in); len(s.shutdown.pendingRemovals) > 1 {
		return
	}
	s.scope.Post(func() {
		var names []string
		for _, in := range s.shutdown.pendingRemovals {
			in.tree.Remove()
			for _, which := range streamsOf(in.program) {
				names = append(names, s.fifoPath(in.name, which))
			}
		}
		s.shutdown.pendingRemovals = nil
		s.host.RemoveNames(names)
	})
}

// hasEdges reports whether the instance has edges in the dependency graph, in either direction.
func (in *instance) hasEdges() bool { return in.node.Linked() }

// stopForShutdown requests the instance to stop for the shutdown.
func (in *instance) stopForShutdown() {
	in.replacement = nil
	m, sd := &in.machine, in.sup.shutdown
	if !sd.resumed || m.desired.up || m.desired.by.Kind != ActorShutdown && !m.state.AtRest() {
		in.do(func() []Effect { return m.wantDown(actor(ActorShutdown)) })
	}
	if sd.hurry {
		in.hurry()
	}
}

func (s *Supervisor) inHurry() bool { return s.shutdown != nil && s.shutdown.hurry }

// hurry ends the time-out of a stop, a teardown or a hook.
func (in *instance) hurry() {
	switch r := in.run; {
	case in.machine.state == StopPending:
		in.do(in.machine.stopNow)
	case in.machine.state == Stopping:
		in.do(in.machine.stopTimeout)
	case r != nil && r.teardown != nil:
		r.teardown.kill()
	case r != nil && r.hook != nil:
		r.hook.kill()
	}
}

// continueShutdown ends superd when all instances are at rest or have an unkillable process.
func (s *Supervisor) continueShutdown() {
	if s.shutdown == nil || s.requestingStops() || s.shutdown.draining || s.onEnd == nil {
		return
	}
	if s.registry.atRest()+s.registry.unkillable < len(s.registry.instances) {
		return
	}
	s.shutdown.draining = true
	s.evict(s.drainAll)
}

// drainAll ends superd when the last output is written, or after drainLimit.
func (s *Supervisor) drainAll() {
	waiting := map[*instance]struct{}{nil: {}}
	ended := false
	drained := func(in *instance) {
		if delete(waiting, in); len(waiting) == 0 && !ended && !s.scope.Closed() {
			ended = true
			s.end()
		}
	}
	s.scope.After(drainLimit, func() {
		if ended {
			return
		}
		ended = true
		for _, in := range s.registry.instances {
			if _, waits := waiting[in]; waits {
				s.log.Warn("output not written: "+in.unresponsiveSink(), "instance", in.name, "waited", drainLimit)
			}
		}
		s.end()
	})
	for _, in := range s.registry.instances {
		// Closing the collector reports output that is lost
		if !in.collector.DrainedOrFailed(func(error) { drained(in) }) {
			waiting[in] = struct{}{}
		}
	}
	s.scope.Post(func() { drained(nil) })
}

// unresponsiveSink returns which receiver does not take the output.
func (in *instance) unresponsiveSink() string {
	switch in.collector.Sink() {
	case "":
		return "the log's file system does not answer"
	case logs.Command:
		return "its logger does not read"
	case logs.OwnStdout:
		return "superd's standard output is not read"
	default:
		return fmt.Sprintf("%s does not answer", in.collector.Sink())
	}
}

func (s *Supervisor) end() {
	for _, in := range s.registry.instances {
		if in.unkillable != "" {
			s.log.Error("process left behind", "instance", in.name, "reason", in.unkillable)
		}
	}
	s.log.Info("shut down", "because", s.shutdown.why.String())
	e := eventlog.Event{Kind: eventlog.Superd, State: eventlog.Ended, Pid: s.options.Pid}
	s.recorder.record(because(e, s.shutdown.why))
	s.onEnd() // Before saveEnd: with an empty journal a successor would start all programs
	s.saveEnd()
	s.recorder.write() // now, since the loop ends
}
