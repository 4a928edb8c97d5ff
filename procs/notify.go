package procs

import "fmt"

// A Notifier is told of superd's own state, as sd_notify(3) has it. Its methods do not block.
type Notifier interface {
	Ready(status string)
	Status(status string)
	Reloading()
	Stopping()
}

// tellNotifier tells the notifier that superd is ready, once, and later its summary.
func (s *Supervisor) tellNotifier() {
	switch {
	case s.onEnd == nil || s.shutdown != nil || s.reloading:
	case s.ready:
		s.notify.Status(s.summary())
	case s.counts[Spawning] == 0 && len(s.unsettled) == 0:
		s.ready = true
		s.log.Info("ready", "state", s.summary())
		s.notify.Ready(s.summary())
	}
}

// summary counts the instances: "3 instances: 2 running, 1 failed".
func (s *Supervisor) summary() string {
	text := plural(len(s.instances), "instance")
	separator := ": "
	for _, states := range [][]State{{Running}, {Spawning, Starting}, {Waiting}, {Stopping, Lingering, Killing, Clearing}, {Backoff}, {Failed}, {Exited}, {Stopped}} {
		count := 0
		for _, state := range states {
			count += s.counts[state]
		}
		if count > 0 {
			text += fmt.Sprintf("%s%d %s", separator, count, states[0])
			separator = ", "
		}
	}
	return text
}
