package instance

import (
	"time"

	"superd/procs/instance/health"
)

// startMonitoring starts the health checks and the watchdog of a main process that is ready. If it
// is monitored already, monitoring starts again by the current definition.
func (r *run) startMonitoring() {
	before := r.monitor
	r.endMonitoring()
	if r.program.Health == nil && watchdogInterval(r) == 0 {
		return
	}
	env := r.in.Env
	r.monitor = health.Start(health.Options{
		Instance: r.in.Name, Run: (*port)(r), Scope: r.main.scope.Child(),
		Host: env.Host, Prober: env.Prober, Log: env.Log,
	}, before, r.savedHealth)
	if r.program.Health != nil {
		r.savedHealth = nil
	}
}

// endMonitoring ends the monitor, if there is one.
func (r *run) endMonitoring() {
	if r.monitor != nil {
		r.monitor.End()
		r.monitor = nil
	}
}

// watchdogInterval returns the interval in which the program must send a watchdog message; 0: none
// is required.
func watchdogInterval(r *run) time.Duration {
	if p := r.watchdogPeriod; p != 0 && r.program.Watchdog != 0 {
		return p
	}
	return r.program.Watchdog
}
