package procs

import (
	"fmt"
	"time"
)

// maxReadyDelay bounds how long superd delays its own readiness for programs that start slowly, as
// with a pre_start hook. It is below the service manager's limit: systemd's is 90 s, on some
// systems 45 s (DefaultTimeoutStartSec=).
const maxReadyDelay = 30 * time.Second

// A Notifier receives superd's own state, as in sd_notify(3). Its methods do not block.
type Notifier interface {
	Ready(status string)
	Status(status string)
	Reloading()
	Stopping()
}

// updateNotifier reports that superd is ready, once, and later its summary.
func (s *Supervisor) updateNotifier() {
	switch {
	case s.shutdown.onEnd == nil || s.shutdown.begun || s.reloading:
	case s.ready:
		s.notify.Status(s.summary())
	case s.registry.counts[Spawning] == 0 && s.reconciler.idle(), !s.readyBy.Active():
		s.ready = true
		s.readyBy.Stop()
		s.log.Info("ready", "state", s.summary())
		s.notify.Ready(s.summary())
	}
}

// summary counts the instances: "3 instances: 2 running, 1 failed".
func (s *Supervisor) summary() string {
	text := plural(len(s.registry.instances), "instance")
	separator := ": "
	for _, states := range [][]State{{Running}, {Spawning, Starting}, {Waiting}, {Stopping, StopPending, Killing, TearingDown}, {Backoff}, {Failed}, {Exited}, {Stopped}} {
		count := 0
		for _, state := range states {
			count += s.registry.counts[state]
		}
		if count > 0 {
			text += fmt.Sprintf("%s%d %s", separator, count, states[0])
			separator = ", "
		}
	}
	return text
}
