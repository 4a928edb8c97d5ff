package procs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"superd/logs"
	"superd/procs/eventlog"
)

// drainLimit bounds how long a shutdown waits for output that is still in the pipes.
const drainLimit = 2 * time.Second

// A shutdown is under way from the first request to the end of superd.
type shutdown struct {
	why      string
	hurry    bool // asked for a second time: no stop time-outs any more
	draining bool // all programs are at rest; their last output is being written

	vacated []*instance // at rest: what they have in the system is about to be removed

	untold []*instance // who has not been told yet
	goesOn bool        // a superd before this one has begun it, and told some
}

// maxTold bounds how many instances one turn tells of a shutdown: each gets its signals meanwhile.
const maxTold = 128

// Shutdown stops every program, then ends. A second call does not wait for stop time-outs any more.
func (s *Supervisor) Shutdown(why string) {
	if s.shutdown != nil {
		s.shutdown.hurry = true
		s.saveSelf()
		s.log.Warn("shutting down at once", "because", why)
		s.record(eventlog.Event{Kind: eventlog.Shutdown, Reason: "at once: " + why})
		s.Write()
		for _, in := range s.instances {
			in.hurry()
		}
		return
	}
	s.shutdown = &shutdown{why: why}
	s.saveSelf()
	s.log.Info("shutting down", "because", why)
	s.record(eventlog.Event{Kind: eventlog.Shutdown, Reason: why})
	s.Write() // before anybody is signalled: the next superd must not start them again
	s.notify.Stopping()
	s.tellAllShutdown()
}

// tellAllShutdown has every instance be told of the shutdown: at once those who are to stop in an order, which is known when all of them are to.
func (s *Supervisor) tellAllShutdown() {
	underWay := s.telling()
	var untold []*instance
	for _, in := range slices.Clone(s.instances) {
		if in.ordered() {
			in.tellShutdown()
		} else {
			untold = append(untold, in)
		}
	}
	s.shutdown.untold = untold
	s.Children() // so many will end: no signal is to tell of each
	if !underWay {
		s.tellShutdown()
	}
}

// tellShutdown tells as many as a turn has room for. What others do meanwhile they may do: they will be told, too, and so they will by the next superd
// where this one is killed, since the shutdown is in the journal before.
func (s *Supervisor) tellShutdown() {
	all := s.shutdown.untold
	batch := all[:min(len(all), cmp.Or(s.options.toldAtOnce, maxTold))]
	s.shutdown.untold = all[len(batch):]
	for _, in := range batch {
		if !in.scope.Closed() {
			in.tellShutdown()
		}
	}
	if len(s.shutdown.untold) > 0 {
		s.scope.Post(s.tellShutdown)
		return
	}
	s.Children() // a sweep may have come no further than to one of those
	s.continueShutdown()
}

// telling reports whether some have not been told of the shutdown yet. So long those who have ended can wait: the sooner the others get their signals, the more
// of them end at the same time, and where all have, the kernel need not be asked for each what is left of it.
func (s *Supervisor) telling() bool { return s.shutdown != nil && len(s.shutdown.untold) > 0 }

// removeSoon has the cgroup and the names of the FIFOs removed of an instance that is at rest, and of which nobody lives, with those of the others with whose end this
// turn deals: to wake somebody for each of a thousand takes as long as that. What is in a FIFO needs no name: without a process, it is there as long as superd or its keeper
// have the FIFO open.
func (s *Supervisor) removeSoon(in *instance) {
	if s.shutdown.vacated = append(s.shutdown.vacated, in); len(s.shutdown.vacated) > 1 {
		return
	}
	s.scope.Post(func() {
		var fifos []string
		for _, in := range s.shutdown.vacated {
			in.tree.Remove()
			for _, which := range streamsOf(in.program) {
				fifos = append(fifos, s.fifo(in.name, which))
			}
		}
		s.shutdown.vacated = nil
		s.system.RemoveFIFOs(fifos)
	})
}

// ordered reports whether the instance names others, or others name it.
func (in *instance) ordered() bool { return len(in.edges) > 0 || len(in.machine.own.edges) > 0 }

// tellShutdown has the instance stop, once.
func (in *instance) tellShutdown() {
	in.next = nil
	m, sd := &in.machine, in.sup.shutdown
	if !sd.goesOn || m.wanted.up || m.wanted.by != theShutdown && !m.state.AtRest() {
		in.do(func() []Effect { return m.wantDown(theShutdown) })
	}
	if sd.hurry {
		in.hurry()
	}
}

// inHurry reports whether nobody wants to wait for stop time-outs any more.
func (s *Supervisor) inHurry() bool { return s.shutdown != nil && s.shutdown.hurry }

// hurry goes on with SIGKILL where the instance waits for an end.
func (in *instance) hurry() {
	switch r := in.run; {
	case in.machine.state == Lingering:
		in.do(in.machine.leave)
	case in.machine.state == Stopping:
		in.do(in.machine.stopDue)
	case r != nil && r.clearing != nil:
		r.clearing.kill()
	case r != nil && r.hook != nil:
		r.hook.kill()
	case r != nil && r.pending != nil: // the stop has not called it off: it is past the point of return
		r.scope.After(killPause, func() {
			if pending := r.pending; pending != nil && in.stuck == "" {
				in.stick(pending.Stage() + ": no answer; " + hangHint)
			}
		})
	}
}

// continueShutdown ends superd when nothing is left to wait for. A process that doesn't die holds nobody up.
func (s *Supervisor) continueShutdown() {
	if s.shutdown == nil || s.telling() || s.shutdown.draining || s.onEnd == nil {
		return
	}
	if s.counts[Stopped]+s.counts[Exited]+s.counts[Failed]+s.stuck < len(s.instances) {
		return
	}
	s.shutdown.draining = true
	left := map[*instance]struct{}{nil: {}}
	ended := false
	drained := func(in *instance) {
		if delete(left, in); len(left) == 0 && !ended && !s.scope.Closed() {
			ended = true
			s.end()
		}
	}
	s.scope.After(drainLimit, func() {
		if ended {
			return
		}
		ended = true
		for _, in := range s.instances {
			if _, waits := left[in]; waits {
				s.log.Warn("output not written: "+in.unheard(), "instance", in.name, "waited", drainLimit)
			}
		}
		s.end()
	})
	for _, in := range s.instances {
		if !in.capture.DrainedOrFailed(func(error) { drained(in) }) { // whoever closes the capture tells of what is lost then
			left[in] = struct{}{}
		}
	}
	s.scope.Post(func() { drained(nil) })
}

// unheard tells who does not take the output.
func (in *instance) unheard() string {
	switch in.capture.Sink() {
	case "":
		return "the log's file system does not answer"
	case logs.Command:
		return "its logger does not read"
	case logs.OwnStdout:
		return "nobody reads superd's standard output"
	}
	return fmt.Sprintf("%s does not answer", in.capture.Sink())
}

func (s *Supervisor) end() {
	for _, in := range s.instances {
		if in.stuck != "" {
			s.log.Error("process left behind", "instance", in.name, "reason", in.stuck)
		}
	}
	s.log.Info("shut down", "because", s.shutdown.why)
	s.record(eventlog.Event{Kind: eventlog.Superd, State: "ended", Pid: s.options.Pid, Reason: s.shutdown.why})
	s.onEnd() // first: who finds nothing in the journal any more starts everything
	s.saveEnd()
	s.Write() // the loop ends
}
