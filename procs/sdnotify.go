package procs

import (
	"time"

	"superd/loop"
	"superd/procs/diagnosis"
	"superd/procs/fsm"
	"superd/procs/reconcile"
)

// maxReadyDelay bounds how long superd delays its own readiness for programs that start slowly, as
// with a pre_start hook. It is below the service manager's limit: systemd's is 90 s, on some
// systems 45 s (DefaultTimeoutStartSec=).
const maxReadyDelay = 30 * time.Second

// A readyNotifier reports to the service manager when superd is ready, when it reloads, and a
// summary of its instances.
type readyNotifier struct {
	*platform
	registry   *registry
	reconciler *reconcile.Queue
	shutdown   *shutdown
	reloading  func() bool // reports whether a reload is running
	opening    func() bool // a socket is being opened for the first time
	notify     Notifier
	// All programs that start by themselves were spawned once, or maxReadyDelay has passed
	ready    bool
	deadline *loop.Timer // fires after maxReadyDelay
}

// start bounds the time until superd is ready.
func (n *readyNotifier) start() { n.deadline = n.Scope.After(maxReadyDelay, n.update) }

// reloadBegun reports that superd reloads its configuration.
func (n *readyNotifier) reloadBegun() {
	if n.ready && !n.shutdown.begun {
		n.notify.Reloading()
	}
}

// reloadEnded reports that superd is ready after a reload.
func (n *readyNotifier) reloadEnded() {
	if n.ready && !n.shutdown.begun {
		n.notify.Ready(n.summary())
	}
}

// update reports that superd is ready, once, and later its summary.
func (n *readyNotifier) update() {
	switch {
	case !n.shutdown.started() || n.shutdown.begun || n.reloading():
	case n.ready:
		n.notify.Status(n.summary())
	case n.registry.counts[fsm.Spawning] == 0 && n.reconciler.Idle() && !n.opening(), !n.deadline.Active():
		n.ready = true
		n.deadline.Stop()
		n.Log.Info("ready", "state", n.summary())
		n.notify.Ready(n.summary())
	}
}

// summary counts the instances.
func (n *readyNotifier) summary() string {
	return diagnosis.Summary(len(n.registry.instances), &n.registry.counts)
}
