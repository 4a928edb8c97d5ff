package procs

import (
	"fmt"
	"strings"
	"time"

	"superd/config"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/probe"
)

// A monitor looks after a main process that is ready: its health checks, and its watchdog.
type monitor struct {
	in    *instance
	run   *run
	scope *loop.Scope

	what     string // is checked: "http http://127.0.0.1:8080/healthz"; empty: nothing
	probe    *probe.Probe
	health   probe.Health
	last     *probe.Result // of its checks; nil before the first
	watchdog *loop.Timer   // WatchdogDue; nil without
}

// attend looks after a main process that is ready, by its table as it is now. It may be called again.
func (in *instance) attend() {
	r := in.run
	p := r.program
	var before *monitor
	if r.monitor != nil {
		before = r.monitor
		before.end()
	}
	if p.Health == nil && in.watchdogPeriod() == 0 {
		return
	}
	m := &monitor{in: in, run: r, scope: r.life.Child()}
	r.monitor = m
	if p.Health != nil {
		m.startChecks(p.Health, before)
	}
	m.fed()
}

// end stops looking.
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
		m.what, c = "tcp "+h.TCP, in.sup.system.CheckTCP(h.TCP)
	case h.HTTP != "":
		m.what = "http " + h.HTTP
		c, err = in.sup.system.CheckHTTP(h.HTTP)
	default:
		m.what, c = "exec "+strings.Join(h.Exec, " "), &execChecker{in, m.run, h.Exec}
	}
	if err != nil { // config has read it
		in.sup.log.Error("health is not checked", "instance", in.name, "error", err)
		return
	}
	switch {
	case before != nil && before.what == m.what:
		m.health.Resume(before.health.FailuresInRow(), before.healthy())
		m.last = before.last
	case m.run.savedHealth != nil && m.run.savedHealth.What == m.what:
		m.health.Resume(m.run.savedHealth.Failures, m.run.savedHealth.Healthy)
	}
	m.run.savedHealth = nil
	m.probe = in.sup.prober.Start(m.scope, c, probe.Options{Interval: h.Interval, Timeout: h.Timeout, Light: h.Exec == nil}, m.checked)
}

// healthy returns the judgement; nil before there is one.
func (m *monitor) healthy() *bool {
	if healthy, known := m.health.Healthy(); known {
		return &healthy
	}
	return nil
}

// checked takes the result of a check. One that has failed counts when all has been heard that the program had told by then: it may be about something
// in which it can't answer.
func (m *monitor) checked(result probe.Result) {
	m.last = &result
	if result.Outcome != probe.Failed {
		m.note(result)
		return
	}
	m.run.heard(func() {
		if m.run.monitor == m {
			m.note(result)
		}
	})
}

// note does what follows from a result. While the program has ended and that, or how, is about to be told, reloads or is on its way out nothing does, nor from a check that began then.
func (m *monitor) note(result probe.Result) {
	in := m.in
	if m.run.mainEnded() || m.run.reloading != nil || m.run.leaving != nil || m.run.reloadedAt != 0 && result.At <= m.run.reloadedAt {
		return
	}
	before := m.health.FailuresInRow()
	changed := m.health.Note(result)
	if changed {
		m.tell()
	}
	if m.health.FailuresInRow() != before || changed {
		in.save()
		in.sup.changed()
	}
	healthy, known := m.health.Healthy()
	if result.Outcome == probe.Failed && known && !healthy && m.run.program.Health.Action == config.HealthRestart {
		in.do(func() []Effect { return in.machine.condemn(Unfit, m.complaint()) })
	}
}

// tell records that the program has become healthy or unhealthy.
func (m *monitor) tell() {
	in := m.in
	e := eventlog.Event{Kind: eventlog.Health, State: "healthy", Reason: m.what}
	if *m.healthy() {
		in.sup.log.Info("program healthy", "instance", in.name, "check", m.what)
	} else {
		e.State, e.Reason = "unhealthy", m.complaint()
		in.sup.log.Warn("program unhealthy", "instance", in.name, "reason", m.complaint())
	}
	in.record(e)
}

// complaint says why the program is unhealthy.
func (m *monitor) complaint() string {
	text := fmt.Sprintf("unhealthy: %s in a row", plural(m.health.FailuresInRow(), "failed check"))
	if m.last != nil && m.last.Reason != "" {
		text += ": " + m.what + ": " + m.last.Reason
	}
	return text
}

// watchdogPeriod is within which time the program has to tell that it lives; 0: it need not.
func (in *instance) watchdogPeriod() time.Duration {
	if p := in.run.watchdogPeriod; p != 0 && in.run.program.Watchdog != 0 {
		return p
	}
	return in.run.program.Watchdog
}

// fed has the watchdog begin anew.
func (m *monitor) fed() {
	period := m.in.watchdogPeriod()
	switch {
	case period == 0 || m.run.leaving != nil:
		m.watchdog.Stop()
	case m.watchdog == nil:
		m.watchdog = m.scope.After(period, m.starved)
	default:
		m.watchdog.Reset(period)
	}
}

// starved is the end of the watchdog's period.
func (m *monitor) starved() {
	m.run.heard(func() {
		switch {
		case m.run.monitor != m || m.watchdog.Active() || m.run.leaving != nil: // it has told just in time, or superd was late
			return
		case m.run.mainEnded(): // another process may become the main one
			m.fed()
			return
		}
		m.bite(fmt.Sprintf("watchdog: no WATCHDOG=1 for %s", plain(m.in.watchdogPeriod())))
	})
}

// bite ends a run of which the watchdog does not hear.
func (m *monitor) bite(reason string) {
	in := m.in
	in.sup.log.Warn("watchdog", "instance", in.name, "pid", m.run.process.Pid(), "reason", reason)
	in.do(func() []Effect { return in.machine.condemn(WatchdogDue, reason) })
}

// A savedHealth is what is known of the health of a run.
type savedHealth struct {
	What     string `json:"what"`
	Failures int    `json:"failures,omitempty"` // in a row
	Healthy  *bool  `json:"healthy,omitempty"`
}

func (m *monitor) saved() *savedHealth {
	if m.what == "" || m.health.FailuresInRow() == 0 && m.healthy() == nil {
		return nil
	}
	return &savedHealth{What: m.what, Failures: m.health.FailuresInRow(), Healthy: m.healthy()}
}
