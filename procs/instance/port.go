package instance

import (
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/execprobe"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/beside"
	"superd/procs/probe"
	"superd/procs/snapshot"
)

// A port is a run as its parts that are packages see it: a [beside.Run], a [readiness.Run], a
// [health.Run] and a [teardown.Run].
type port run

func (p *port) Program() *config.Program  { return p.program }
func (p *port) Main() host.Process        { return p.main.process }
func (p *port) MainEnded() bool           { return p.main.ended() }
func (p *port) Machine() *fsm.Machine     { return &p.in.Machine }
func (p *port) Checks() *execprobe.Runner { return p.in.execChecks("") }
func (p *port) Save()                     { p.in.Save() }
func (p *port) Changed()                  { p.in.Env.Owner.Changed() }
func (p *port) Record(e eventlog.Event)   { p.in.Record(e) }

func (p *port) Reloaded(end *snapshot.ReloadEnd) { p.in.ownProblems().LastReload = end }
func (p *port) WhenNotifyDrained(f func())       { (*run)(p).whenNotifyDrained(f) }

func (p *port) Fail(e fsm.Event, reason fsm.Reason) { p.in.Apply(p.in.Machine.FailRun(e, reason)) }

func (p *port) Spec(command []string, output func(uid uint32) (int, error)) *host.SpawnSpec {
	return commandSpec((*run)(p), command, output)
}

func (p *port) ResumeReloading() {
	if p.reloadTimer == nil {
		(*run)(p).beginProgramReload(p.in.Env.Loop.Now())
	}
}

func (p *port) Reload(done ...func(beside.Outcome)) { p.in.Reload(done...) }

func (p *port) WatchdogInterval() time.Duration { return watchdogInterval((*run)(p)) }

func (p *port) Reloads(at time.Duration) bool {
	return p.reloadTimer != nil || p.reloadedAt != 0 && at <= p.reloadedAt
}

func (p *port) Delays(at time.Duration) bool { return p.beside.Delay(at) }

func (p *port) StopsItself() bool { return p.ownStopTimer != nil }

func (p *port) TCPChecker(key, template string) (address string, c probe.Checker) {
	address, err := expandAddress(p, key, template)
	if err != nil {
		return template, uncheckable(p, err)
	}
	return address, p.in.Env.Host.CheckTCP(address)
}

func (p *port) HTTPChecker(key, template string) (address string, c probe.Checker) {
	address, err := expandAddress(p, key, template)
	if err == nil {
		c, err = p.in.Env.Host.CheckHTTP(address)
	}
	if err != nil {
		return template, uncheckable(p, err)
	}
	return address, c
}

// uncheckable returns a checker for an address that can't be used, which says nothing of the
// program.
func uncheckable(p *port, err error) probe.Checker {
	return probe.Failing(&p.in.Scope, probe.Uncounted{Err: err})
}

// expandAddress expands the value of a key.
func expandAddress(p *port, key, template string) (string, error) {
	return p.program.Expand(key, template, p.in.Env.Environment, runVariables((*run)(p)))
}

func (p *port) Checker(command []string) probe.Checker { return &execChecker{(*run)(p), command} }

func (p *port) KillSignal() syscall.Signal      { return p.stop.killSignal() }
func (p *port) Spared() bool                    { return p.stop.spared() }
func (p *port) RecordSpared()                   { p.stop.recordSpared() }
func (p *port) KillTree(sig syscall.Signal)     { (*run)(p).killTree(sig) }
func (p *port) LogUnwatched(pid int, err error) { p.in.Env.Reaper.LogUnwatched(pid, err) }
func (p *port) Unkillable() bool                { return p.in.unkillable != "" }
func (p *port) MarkUnkillable(why string)       { p.in.markUnkillable(why) }

func (p *port) ReportUnkillable(sig syscall.Signal, pids ...int) { p.in.reportUnkillable(sig, pids...) }

func (p *port) FoundLeftovers() {
	if p.main.exitedEarly {
		p.main.exitedEarly = false
		wentToBackground(p.in)
	}
}

func (p *port) TornDown(killed []string) {
	p.teardown = nil
	if len(killed) > 0 {
		p.in.Machine.LeftoversKilled(strings.Join(killed, ", "))
	}
	p.in.clearUnkillable()
	(*run)(p).leftoversKilled()
}
