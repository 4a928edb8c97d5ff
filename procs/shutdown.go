package procs

import (
	"slices"
	"time"
)

// drainLimit bounds how long a shutdown waits for output that is still in the pipes.
const drainLimit = 2 * time.Second

// A shutdown is under way from the first request to the end of superd.
type shutdown struct {
	why      string
	draining bool // all programs are at rest; their last output is being written
}

// Shutdown stops every program, then ends. A second call does not wait for stop time-outs any more.
func (s *Supervisor) Shutdown(why string) {
	if s.shutdown != nil {
		s.log.Warn("shutting down at once", "because", why)
		for _, in := range s.instances {
			if in.machine.state == Stopping {
				in.do(in.machine.stopDue)
			}
		}
		return
	}
	s.shutdown = &shutdown{why: why}
	s.log.Info("shutting down", "because", why)
	s.notify.Stopping()
	for _, in := range slices.Clone(s.instances) {
		in.next = nil
		in.do(func() []Effect { return in.machine.wantDown("the shutdown") })
	}
	s.continueShutdown()
}

// continueShutdown ends superd when nothing is left to wait for. A process that doesn't die holds nobody up.
func (s *Supervisor) continueShutdown() {
	if s.shutdown == nil || s.shutdown.draining || s.onEnd == nil {
		return
	}
	if s.counts[Stopped]+s.counts[Exited]+s.counts[Failed]+s.stuck < len(s.instances) {
		return
	}
	s.shutdown.draining = true
	left := len(s.instances) + 1
	ended := false
	drained := func() {
		if left--; left <= 0 && !ended {
			ended = true
			s.end()
		}
	}
	s.scope.After(drainLimit, func() {
		if !ended {
			ended = true
			s.log.Warn("output not written: the log's file system does not answer", "waited", drainLimit)
			s.end()
		}
	})
	for _, in := range s.instances {
		in.capture.Drained(drained)
	}
	s.scope.Post(drained)
}

func (s *Supervisor) end() {
	for _, in := range s.instances {
		if in.stuck != "" {
			s.log.Error("process left behind", "instance", in.name, "reason", in.stuck)
		}
	}
	s.log.Info("shut down", "because", s.shutdown.why)
	s.onEnd()
}
