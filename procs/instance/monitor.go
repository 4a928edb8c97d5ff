package instance

import (
	"fmt"
	"strings"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/probe"
	"superd/procs/snapshot"
)

// A monitor runs the health checks and the watchdog of a main process that is ready.
type monitor struct {
	in    *Instance
	run   *run
	scope *loop.Scope

	what     string // what is checked: "http http://127.0.0.1:8080/healthz"; empty without checks
	probe    *probe.Probe
	health   probe.Health
	last     *probe.Result // result of the last check; nil before the first
	watchdog *loop.Timer   // calls watchdogTimeout; nil without a watchdog
}

// startMonitoring starts the health checks and the watchdog of a main process that is ready. If it
// is monitored already, monitoring starts again by the current definition.
func (r *run) startMonitoring() {
	p := r.program
	var before *monitor
	if r.monitor != nil {
		before = r.monitor
		before.end()
	}
	if p.Health == nil && r.watchdogInterval() == 0 {
		return
	}
	m := &monitor{in: r.in, run: r, scope: r.main.scope.Child()}
	r.monitor = m
	if p.Health != nil {
		m.startChecks(p.Health, before)
	}
	m.watchdogPing()
}

// end stops the monitor.
func (m *monitor) end() {
	m.scope.Close()
	m.run.monitor = nil
}

func (m *monitor) startChecks(h *config.Health, before *monitor) {
	in := m.in
	m.health = probe.Health{Failures: h.Failures}
	var c probe.Checker
	var err error
	switch {
	case h.TCP != "":
		m.what, c = "tcp "+h.TCP, in.Env.Host.CheckTCP(h.TCP)
	case h.HTTP != "":
		m.what = "http " + h.HTTP
		c, err = in.Env.Host.CheckHTTP(h.HTTP)
	default:
		m.what, c = "exec "+strings.Join(h.Exec, " "), &execChecker{m.run, h.Exec}
	}
	if err != nil { // config has validated it
		in.Env.Log.Error("health not checked", "instance", in.Name, "error", err)
		return
	}
	switch {
	case before != nil && before.what == m.what:
		m.health.Resume(before.health.FailuresInRow(), before.healthy())
		m.last = before.last
	default:
		m.restore(m.run.savedHealth)
	}
	m.run.savedHealth = nil
	m.probe = in.Env.Prober.Start(m.scope, c, probe.Options{Interval: h.Interval, Timeout: h.Timeout, Light: h.Exec == nil}, m.onResult)
}

// snapshot returns the snapshot of the health; nil while nothing is known.
func (m *monitor) snapshot() *snapshot.Health {
	if m.what == "" || m.health.FailuresInRow() == 0 && m.healthy() == nil {
		return nil
	}
	return &snapshot.Health{What: m.what, Failures: m.health.FailuresInRow(), Healthy: m.healthy()}
}

// restore sets the health to a snapshot of the same checks. v may be nil.
func (m *monitor) restore(v *snapshot.Health) {
	if v != nil && v.What == m.what {
		m.health.Resume(v.Failures, v.Healthy)
	}
}

// healthy returns the health; nil while it is unknown.
func (m *monitor) healthy() *bool {
	if healthy, known := m.health.Healthy(); known {
		return &healthy
	}
	return nil
}

// onResult handles the result of a check. A failed check is applied after all notifications sent by
// then are read: the program may have announced a reload, during which it can't answer.
func (m *monitor) onResult(result probe.Result) {
	m.last = &result
	if result.Outcome != probe.Failed {
		m.applyResult(result)
		return
	}
	if m.run.main.ended() {
		return // a message that is not read yet may name another main process
	}
	m.run.whenNotifyDrained(func() {
		if m.run.monitor == m {
			m.applyResult(result)
		}
	})
}

// applyResult applies a result. It ignores results while the main process has ended and is not
// reaped, during a reload of the program, while a command runs that an exec check has to wait for,
// and while the program stops by itself. It also ignores checks begun during a reload or a command.
func (m *monitor) applyResult(result probe.Result) {
	in := m.in
	reloads := m.run.reloadTimer != nil || m.run.reloadedAt != 0 && result.At <= m.run.reloadedAt
	if m.run.main.ended() || reloads || m.run.ownStopTimer != nil || m.run.beside.Delay(result.At) {
		return
	}
	before := m.health.FailuresInRow()
	changed := m.health.Note(result)
	if changed {
		m.recordHealth()
	}
	if m.health.FailuresInRow() != before || changed {
		in.Save()
		in.Env.Owner.Changed()
	}
	healthy, known := m.health.Healthy()
	if result.Outcome == probe.Failed && known && !healthy && m.run.program.Health.Action == config.HealthRestart {
		reason := fsm.ReasonUnhealthy.With(m.unhealthyReason())
		in.Apply(in.Machine.FailRun(fsm.HealthFailed, reason))
	}
}

// recordHealth logs and records that the program has become healthy or unhealthy.
func (m *monitor) recordHealth() {
	in := m.in
	e, why := eventlog.Event{Kind: eventlog.Health, State: eventlog.Healthy}, fsm.ReasonHealthy.With(m.what)
	if *m.healthy() {
		in.Env.Log.Info("program healthy", "instance", in.Name, "check", m.what)
	} else {
		e.State, why = eventlog.Unhealthy, fsm.ReasonUnhealthy.With(m.unhealthyReason())
		in.Env.Log.Warn("program unhealthy", "instance", in.Name, "reason", m.unhealthyReason())
	}
	in.Record(eventlog.WithReason(e, why))
}

// unhealthyReason returns why the program is unhealthy.
func (m *monitor) unhealthyReason() string {
	text := fmt.Sprintf("unhealthy: %s in a row", words.Plural(m.health.FailuresInRow(), "failed check"))
	if m.last != nil && m.last.Reason != "" {
		text += ": " + m.what + ": " + m.last.Reason
	}
	return text
}

// watchdogInterval returns the interval in which the program must send a watchdog message; 0: none
// is required.
func (r *run) watchdogInterval() time.Duration {
	if p := r.watchdogPeriod; p != 0 && r.program.Watchdog != 0 {
		return p
	}
	return r.program.Watchdog
}

// watchdogPing restarts the watchdog's period.
func (m *monitor) watchdogPing() {
	period := m.run.watchdogInterval()
	switch {
	case period == 0 || m.run.ownStopTimer != nil:
		m.watchdog.Stop()
	case m.watchdog == nil:
		m.watchdog = m.scope.After(period, m.watchdogTimeout)
	default:
		m.watchdog.Reset(period)
	}
}

// watchdogTimeout handles the end of the watchdog's period.
func (m *monitor) watchdogTimeout() {
	m.run.whenNotifyDrained(func() {
		switch {
		// The message came just in time
		case m.run.monitor != m || m.watchdog.Active() || m.run.ownStopTimer != nil:
			return
		case m.run.main.ended(): // a message may name another main process
			m.watchdogPing()
			return
		}
		m.watchdogFired(fmt.Sprintf("watchdog: no WATCHDOG=1 for %s", words.Duration(m.run.watchdogInterval())))
	})
}

// watchdogFired fails the run because of the watchdog.
func (m *monitor) watchdogFired(reason string) {
	in := m.in
	in.Env.Log.Warn("watchdog", "instance", in.Name, "pid", m.run.main.process.Pid(), "reason", reason)
	why := fsm.ReasonWatchdogTimeout.With(reason)
	in.Apply(in.Machine.FailRun(fsm.WatchdogTimeout, why))
}
