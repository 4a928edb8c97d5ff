// Package health monitors a main process that is ready, by its health checks and its watchdog.
//
// A [Monitor] lives on the loop.
package health

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/probe"
	"superd/procs/snapshot"
)

// Options say what a [Monitor] monitors.
type Options struct {
	Instance string
	Run      Run
	Scope    *loop.Scope // ends with the monitor
	Host     host.Host
	Prober   *probe.Prober
	Log      *slog.Logger
}

// A Run is what a monitor needs of its run.
type Run interface {
	// Program returns its definition.
	Program() *config.Program
	// Main returns the main process; nil without one.
	Main() host.Process
	// MainEnded reports whether the main process has ended, even if it is not reaped.
	MainEnded() bool
	// WatchdogInterval returns the interval in which the program must send a watchdog message; 0:
	// none is required.
	WatchdogInterval() time.Duration
	// Reloads reports whether the program reloads its configuration, or did so after that time.
	Reloads(at time.Duration) bool
	// Delays reports whether a check that began at that time may have waited for a command.
	Delays(at time.Duration) bool
	// StopsItself reports whether the program has announced its own stop.
	StopsItself() bool
	// Checker returns a check by a command.
	Checker(command []string) probe.Checker
	// WhenNotifyDrained calls f when all notifications sent by now are read.
	WhenNotifyDrained(f func())

	// Save queues the instance's record.
	Save()
	// Changed is called when something that a status shows has changed.
	Changed()
	// Record puts an event of the instance into the event log.
	Record(e eventlog.Event)
	// Fail fails the run.
	Fail(e fsm.Event, reason fsm.Reason)
}

// A Monitor runs the health checks and the watchdog of a main process that is ready.
type Monitor struct {
	Options
	what     string // what is checked: "http http://127.0.0.1:8080/healthz"; empty without checks
	probe    *probe.Probe
	health   probe.Health
	last     *probe.Result // result of the last check; nil before the first
	watchdog *loop.Timer   // calls watchdogTimeout; nil without a watchdog
}

// Start starts a monitor. before is the one that it replaces, and saved what the predecessor knew;
// both may be nil.
func Start(o Options, before *Monitor, saved *snapshot.Health) *Monitor {
	m := &Monitor{Options: o}
	if h := o.Run.Program().Health; h != nil {
		m.startChecks(h, before, saved)
	}
	m.WatchdogPing()
	return m
}

// End stops the monitor.
func (m *Monitor) End() { m.Scope.Close() }

func (m *Monitor) startChecks(h *config.Health, before *Monitor, saved *snapshot.Health) {
	m.health = probe.Health{Failures: h.Failures}
	var c probe.Checker
	var err error
	switch {
	case h.TCP != "":
		m.what, c = "tcp "+h.TCP, m.Host.CheckTCP(h.TCP)
	case h.HTTP != "":
		m.what = "http " + h.HTTP
		c, err = m.Host.CheckHTTP(h.HTTP)
	default:
		m.what, c = "exec "+strings.Join(h.Exec, " "), m.Run.Checker(h.Exec)
	}
	if err != nil { // config has validated it
		m.Log.Error("health not checked", "instance", m.Instance, "error", err)
		return
	}
	switch {
	case before != nil && before.what == m.what:
		m.health.Resume(before.health.FailuresInRow(), before.Healthy())
		m.last = before.last
	default:
		m.restore(saved)
	}
	m.probe = m.Prober.Start(m.Scope, c, probe.Options{Interval: h.Interval, Timeout: h.Timeout, Light: h.Exec == nil}, m.OnResult)
}

// Snapshot returns the snapshot of the health; nil while nothing is known.
func (m *Monitor) Snapshot() *snapshot.Health {
	if m.what == "" || m.health.FailuresInRow() == 0 && m.Healthy() == nil {
		return nil
	}
	return &snapshot.Health{What: m.what, Failures: m.health.FailuresInRow(), Healthy: m.Healthy()}
}

// restore sets the health to a snapshot of the same checks. v may be nil.
func (m *Monitor) restore(v *snapshot.Health) {
	if v != nil && v.What == m.what {
		m.health.Resume(v.Failures, v.Healthy)
	}
}

// Healthy returns the health; nil while it is unknown.
func (m *Monitor) Healthy() *bool {
	if healthy, known := m.health.Healthy(); known {
		return &healthy
	}
	return nil
}

// OnResult handles the result of a check. A failed check is applied after all notifications sent by
// then are read: the program may have announced a reload, during which it can't answer.
func (m *Monitor) OnResult(result probe.Result) {
	m.last = &result
	if result.Outcome != probe.Failed {
		m.applyResult(result)
		return
	}
	if m.Run.MainEnded() {
		return // a message that is not read yet may name another main process
	}
	m.Run.WhenNotifyDrained(func() {
		if !m.Scope.Closed() {
			m.applyResult(result)
		}
	})
}

// applyResult applies a result. It ignores results while the main process has ended and is not
// reaped, during a reload of the program, while a command runs that an exec check has to wait for,
// and while the program stops by itself. It also ignores checks begun during a reload or a command.
func (m *Monitor) applyResult(result probe.Result) {
	if m.Run.MainEnded() || m.Run.Reloads(result.At) || m.Run.StopsItself() || m.Run.Delays(result.At) {
		return
	}
	before := m.health.FailuresInRow()
	changed := m.health.Note(result)
	if changed {
		m.recordHealth()
	}
	if m.health.FailuresInRow() != before || changed {
		m.Run.Save()
		m.Run.Changed()
	}
	healthy, known := m.health.Healthy()
	if result.Outcome == probe.Failed && known && !healthy && m.Run.Program().Health.Action == config.HealthRestart {
		reason := fsm.ReasonUnhealthy.With(m.UnhealthyReason())
		m.Run.Fail(fsm.HealthFailed, reason)
	}
}

// recordHealth logs and records that the program has become healthy or unhealthy.
func (m *Monitor) recordHealth() {
	e, why := eventlog.Event{Kind: eventlog.Health, State: eventlog.Healthy}, fsm.ReasonHealthy.With(m.what)
	if *m.Healthy() {
		m.Log.Info("program healthy", "instance", m.Instance, "check", m.what)
	} else {
		e.State, why = eventlog.Unhealthy, fsm.ReasonUnhealthy.With(m.UnhealthyReason())
		m.Log.Warn("program unhealthy", "instance", m.Instance, "reason", m.UnhealthyReason())
	}
	m.Run.Record(eventlog.WithReason(e, why))
}

// Report returns what is checked, empty without checks, and the results so far.
func (m *Monitor) Report() (what string, last *probe.Result, failures int) {
	return m.what, m.last, m.health.FailuresInRow()
}

// UnhealthyReason returns why the program is unhealthy.
func (m *Monitor) UnhealthyReason() string {
	text := fmt.Sprintf("unhealthy: %s in a row", words.Plural(m.health.FailuresInRow(), "failed check"))
	if m.last != nil && m.last.Reason != "" {
		text += ": " + m.what + ": " + m.last.Reason
	}
	return text
}

// WatchdogPing restarts the watchdog's period. m may be nil.
func (m *Monitor) WatchdogPing() {
	if m == nil {
		return
	}
	period := m.Run.WatchdogInterval()
	switch {
	case period == 0 || m.Run.StopsItself():
		m.watchdog.Stop()
	case m.watchdog == nil:
		m.watchdog = m.Scope.After(period, m.watchdogTimeout)
	default:
		m.watchdog.Reset(period)
	}
}

// watchdogTimeout handles the end of the watchdog's period.
func (m *Monitor) watchdogTimeout() {
	m.Run.WhenNotifyDrained(func() {
		switch {
		// The message came just in time
		case m.Scope.Closed() || m.watchdog.Active() || m.Run.StopsItself():
			return
		case m.Run.MainEnded(): // a message may name another main process
			m.WatchdogPing()
			return
		}
		m.WatchdogFired(fmt.Sprintf("watchdog: no WATCHDOG=1 for %s", words.Duration(m.Run.WatchdogInterval())))
	})
}

// WatchdogFired fails the run because of the watchdog.
func (m *Monitor) WatchdogFired(reason string) {
	m.Log.Warn("watchdog", "instance", m.Instance, "pid", m.Run.Main().Pid(), "reason", reason)
	why := fsm.ReasonWatchdogTimeout.With(reason)
	m.Run.Fail(fsm.WatchdogTimeout, why)
}
