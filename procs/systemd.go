package procs

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"superd/loop"
)

// statusPause is how long the status text rests after it was sent, so that a storm of crashes is no storm for systemd.
const statusPause = 200 * time.Millisecond

// Systemd is the [Notifier] of a superd that systemd has started. A goroutine sends, since systemd's socket may be
// full; of the status texts that wait only the last is sent.
type Systemd struct {
	send    func(state string)
	wake    chan struct{} // holds one
	closing chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	states []string
	status string
}

// NewSystemd returns the notifier for NOTIFY_SOCKET; where that is not set, what it sends goes nowhere. While the loop
// turns, it feeds the watchdog if systemd wants that, twice a period. Source: sd_notify(3), sd_watchdog_enabled(3).
func NewSystemd(scope *loop.Scope) *Systemd {
	// One socket, opened now: later there may be no descriptor left, and a silent watchdog kills.
	var socket net.Conn
	if path := os.Getenv("NOTIFY_SOCKET"); path != "" {
		socket, _ = net.Dial("unixgram", path)
	}
	n := newSystemd(func(state string) {
		if socket != nil {
			io.WriteString(socket, state) // an error means that systemd is gone: there is nobody to tell
		}
	})
	if period, err := daemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		scope.Every(period/2, func() { n.tell(daemon.SdNotifyWatchdog) })
	}
	return n
}

func newSystemd(send func(string)) *Systemd {
	n := &Systemd{send: send, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	go n.run()
	return n
}

// Ready tells that superd is ready, or ready again after [Systemd.Reloading].
func (n *Systemd) Ready(status string) {
	n.Status(status)
	n.tell(daemon.SdNotifyReady)
}

// Status has status shown by systemctl status.
func (n *Systemd) Status(status string) {
	n.mu.Lock()
	n.status = status
	n.mu.Unlock()
	n.signal()
}

// Reloading tells that a reload has begun.
func (n *Systemd) Reloading() {
	n.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping tells that superd is on its way out.
func (n *Systemd) Stopping() { n.tell(daemon.SdNotifyStopping) }

// Close sends what is left, for at most patience.
func (n *Systemd) Close(patience time.Duration) {
	close(n.closing)
	select {
	case <-n.ended:
	case <-time.After(patience):
	}
}

func (n *Systemd) tell(state string) {
	n.mu.Lock()
	n.states = append(n.states, state)
	n.mu.Unlock()
	n.signal()
}

func (n *Systemd) signal() {
	select {
	case n.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

func (n *Systemd) run() {
	defer close(n.ended)
	shown := ""
	var rest <-chan time.Time // set while the status rests
	for closing := false; !closing; {
		select {
		case <-n.wake:
		case <-rest:
			rest = nil
		case <-n.closing:
			closing, rest = true, nil
		}
		n.mu.Lock()
		states, status := n.states, n.status
		n.states = nil
		n.mu.Unlock()
		for _, state := range states {
			n.send(state)
		}
		if status != shown && rest == nil {
			n.send("STATUS=" + status)
			shown = status
			rest = time.After(statusPause)
		}
	}
}
