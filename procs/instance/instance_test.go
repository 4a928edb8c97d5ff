package instance

import (
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/teardown"
	"superd/procs/notify"
	"superd/procs/snapshot"
)

// A scenario is one instance that is started. After a second something happens.
type scenario struct {
	name    string
	program func(*config.Program) // changes the definition; may be nil
	mix     hosttest.FaultMix
	act     func(*bench)  // may be nil
	during  time.Duration // from then on; 0: a minute
	end     func(*bench)  // ends what a stop does not end; may be nil
	states  string
	reason  string // empty: not checked, as it has a local time
}

// run plays the scenario. Then it stops and removes the instance, of which nothing may be left.
func (s *scenario) run(t *testing.T) {
	program := testProgram()
	if s.program != nil {
		s.program(program)
	}
	b := newBench(t, s.mix, program)
	b.start()
	b.v.RunFor(time.Second)
	if s.act != nil {
		s.act(b)
	}
	during := s.during
	if during == 0 {
		during = time.Minute
	}
	b.v.RunFor(during)
	b.want(s.states, s.reason)
	b.stop()
	if s.end != nil {
		s.end(b)
	}
	b.v.RunFor(2 * time.Hour)
	b.close()
}

// exit lets the main process exit.
func exit(code int) func(*bench) {
	return func(b *bench) { b.main().End(pidfd.Exit{Known: true, Code: code}) }
}

// forkAndExit lets the main process exit and leave a child.
func forkAndExit(b *bench) {
	b.kernel.NewProcess("web", b.in.run.invocationID, hosttest.RoleEscaped)
	exit(0)(b)
}

// left is the reason of a program that has ended by forkAndExit.
const left = "exit status 0 after 1s; it left processes behind: a program must stay in the " +
	"foreground; look for an option such as -D, -F, --foreground or \"daemonize no\", " +
	"or set type = \"forking\""

// send lets the main process send a message.
func send(m notify.Message) func(*bench) {
	return func(b *bench) { b.main().Notify(m) }
}

// TestRun: a run goes through its states, and nothing of it is left at the end.
func TestRun(t *testing.T) {
	tests := []scenario{
		{name: "a program that exits with success", act: exit(0),
			states: "spawning running exited",
			reason: "exit status 0 after 1s"},
		{name: "a failure is followed by a restart", act: exit(3), during: 2 * time.Second,
			states: "spawning running backoff spawning running",
			reason: "started again: exit status 3 after 1s"},
		{name: "a scheduled program waits for its time", program: func(p *config.Program) {
			p.Type, p.Schedule = config.TypeOneshot, "@every 1h"
		}, act: exit(0),
			states: "spawning running waiting"},
		{name: "a program with mistakes does not start", program: func(p *config.Program) {
			p.Invalid = append(p.Invalid, &config.KeyError{Key: "user", Err: syscall.ENOENT})
		},
			states: "spawning failed",
			reason: "user: no such file or directory"},
		{name: "its process can't be watched", mix: hosttest.FaultMix{WatchFails: 1}, act: exit(0),
			states: "spawning running exited",
			reason: "exit status 0 after 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestStart: a start that fails or hangs ends, and no process of it is left.
func TestStart(t *testing.T) {
	tests := []scenario{
		{name: "no such command", mix: hosttest.FaultMix{SpawnFails: 1}, during: time.Millisecond,
			states: "spawning backoff spawning backoff",
			reason: "open executable: no such file or directory"},
		{name: "a resource shortage", mix: hosttest.FaultMix{SpawnFails: 1, Shortage: 1},
			during: 3 * time.Second,
			states: "spawning backoff spawning backoff spawning backoff",
			reason: "execute: resource temporarily unavailable"},
		{name: "it hangs before the fork", mix: hosttest.FaultMix{SpawnHangs: 1},
			during: 29*time.Second + time.Second/2,
			states: "spawning backoff",
			reason: "open executable /sim: no answer within start_timeout 30s; is its file system " +
				"hanging?"},
		{name: "the next start waits for the hung one", mix: hosttest.FaultMix{SpawnHangs: 1},
			during: 31 * time.Second,
			states: "spawning backoff spawning",
			reason: "started again: open executable /sim: no answer within start_timeout 30s; is " +
				"its file system hanging?: waits for an earlier start, which hangs in open " +
				"executable /sim"},
		{name: "one that hangs is stopped", mix: hosttest.FaultMix{SpawnHangs: 1},
			act:    (*bench).stop,
			states: "spawning stopped",
			reason: "stopped by the operator: start cancelled"},
		{name: "one that hangs before its exec is stopped", mix: hosttest.FaultMix{ExecHangs: 1},
			act:    (*bench).stop,
			states: "spawning stopped",
			reason: "stopped by the operator: start cancelled"},
		{name: "the program runs, and superd learns of it late",
			mix: hosttest.FaultMix{NoResult: true}, act: (*bench).stop,
			states: "spawning",
			reason: "open executable /sim: no answer; is its file system hanging?"},
		{name: "a child that SIGKILL does not end",
			mix: hosttest.FaultMix{ExecHangs: 1, Unkillable: 1}, act: (*bench).stop,
			during: 5 * time.Second,
			states: "spawning",
			reason: "open executable /sim: process 2 survives SIGKILL: state D (disk sleep); is " +
				"its file system hanging?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestHooks: pre_start hooks precede the start, and post_stop hooks follow its end.
func TestHooks(t *testing.T) {
	preStart := func(p *config.Program) {
		p.PreStart = [][]string{{hosttest.PreStartCommand}, {hosttest.PreStartCommand}}
	}
	postStop := func(p *config.Program) { p.PostStop = [][]string{{hosttest.PostStopCommand}} }
	tests := []scenario{
		{name: "the program starts after them", program: preStart,
			states: "spawning running",
			reason: "started by the operator"},
		{name: "one fails", program: preStart, mix: hosttest.FaultMix{HookFails: 1},
			during: time.Millisecond,
			states: "spawning backoff",
			reason: "pre_start /hook: exit status 1"},
		{name: "one hangs", program: preStart, mix: hosttest.FaultMix{HookHangs: 1},
			during: 29*time.Second + time.Second/2,
			states: "spawning backoff",
			reason: "pre_start /hook: still running after start_timeout 30s"},
		{name: "one has ended and a tracer has it", program: preStart,
			mix: hosttest.FaultMix{HookHangs: 1}, act: func(b *bench) {
				for p := range b.kernel.Processes() {
					p.Traced = true
					p.End(pidfd.Exit{Known: true})
					b.v.Root().After(time.Minute, func() { p.Traced = false })
				}
			}, during: 33 * time.Second,
			states: "spawning",
			reason: "process 2 survives SIGKILL: state D (disk sleep)"},
		{name: "one that hangs is stopped", program: preStart,
			mix: hosttest.FaultMix{HookHangs: 1}, act: (*bench).stop,
			states: "spawning stopped",
			reason: "stopped by the operator: start cancelled"},
		{name: "one that hangs ignores the stop signal", program: preStart,
			mix: hosttest.FaultMix{HookHangs: 1, IgnoresStop: 1}, act: (*bench).stop,
			during: 11 * time.Second,
			states: "spawning stopped",
			reason: "stopped by the operator: start cancelled"},
		{name: "one has no worker", program: preStart, mix: hosttest.FaultMix{SpawnHangs: 1},
			act:    (*bench).stop,
			states: "spawning stopped",
			reason: "stopped by the operator: start cancelled"},
		{name: "one hangs before the fork", program: preStart,
			mix: hosttest.FaultMix{SpawnHangs: 1}, during: 29*time.Second + time.Second/2,
			states: "spawning backoff",
			reason: "pre_start /hook: open executable /sim: no answer within start_timeout 30s; " +
				"is its file system hanging?"},
		{name: "post_stop follows a stop", program: postStop, act: (*bench).stop,
			states: "spawning running stopping teardown stopped",
			reason: "stopped by the operator: ended by the stop signal (killed by SIGTERM after 1s)"},
		{name: "a post_stop hook that hangs is ended", program: postStop,
			mix: hosttest.FaultMix{HookHangs: 1}, act: exit(0),
			states: "spawning running teardown exited",
			reason: "exit status 0 after 1s"},
		{name: "in a hurry there is no post_stop", program: postStop, act: func(b *bench) {
			b.phase.Hurry = true
			b.stop()
		}, during: time.Millisecond,
			states: "spawning running stopping killing teardown stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGTERM " +
				"after 1s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestStop: a stop ends the run in time.
func TestStop(t *testing.T) {
	stop := (*bench).stop
	deaf := hosttest.FaultMix{IgnoresStop: 1}
	abort := func(p *config.Program) { p.KillSignal = syscall.SIGQUIT }
	spare := func(p *config.Program) { p.NoFinalKill = true }
	drain := func(p *config.Program) { p.DrainTimeout = time.Minute }
	endAll := func(b *bench) {
		for p := range b.kernel.Processes() {
			p.End(pidfd.Exit{Known: true})
		}
	}
	tests := []scenario{
		{name: "by the stop signal", act: stop,
			states: "spawning running stopping stopped",
			reason: "stopped by the operator: ended by the stop signal (killed by SIGTERM after 1s)"},
		{name: "SIGKILL follows the time-out", mix: deaf, act: stop,
			states: "spawning running stopping killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGKILL " +
				"after 11s)"},
		{name: "not before it", mix: deaf, act: stop, during: 9 * time.Second,
			states: "spawning running stopping",
			reason: "stop requested by the operator"},
		{name: "in a hurry at once", mix: deaf, act: func(b *bench) {
			b.stop()
			b.in.Hurry()
		}, during: time.Second,
			states: "spawning running stopping killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGKILL " +
				"after 1s)"},
		{name: "SIGKILL does not end it", mix: hosttest.FaultMix{IgnoresStop: 1, Unkillable: 1},
			act: stop, during: 15 * time.Second,
			states: "spawning running stopping killing",
			reason: "process 2 survives SIGKILL: state D (disk sleep)"},
		{name: "another signal instead of SIGKILL", mix: deaf, act: stop, program: abort,
			states: "spawning running stopping killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGQUIT " +
				"after 11s)"},
		{name: "another signal, for what it leaves", mix: deaf, act: forkAndExit, program: abort,
			states: "spawning running teardown exited", reason: left},
		{name: "in a hurry it is killed all the same", mix: deaf, act: func(b *bench) {
			b.stop()
			b.v.RunFor(11 * time.Second)
			b.phase.Hurry = true
			b.in.Hurry()
		}, program: spare, states: "spawning running stopping killing stopped"},
		{name: "no signal at all", mix: deaf, act: stop, program: spare, end: endAll,
			states: "spawning running stopping",
			reason: "stop requested by the operator: still alive after stop_timeout; " + teardown.SparedText},
		{name: "none to what it leaves", mix: deaf, act: forkAndExit, program: spare, end: endAll,
			states: "spawning running teardown"},
		{name: "until a reload allows it", mix: deaf, program: spare, act: func(b *bench) {
			b.stop()
			b.v.RunFor(20 * time.Second)
			b.redefine(func(p *config.Program) { p.NoFinalKill = false })
		}, states: "spawning running stopping killing stopped"},
		{name: "a drain, while it lasts", mix: deaf, program: drain, act: (*bench).remove,
			during: 59 * time.Second, states: "spawning running stopping",
			reason: "stop requested by the rolling restart: drains for the rolling restart"},
		{name: "a drain that lasts too long", mix: deaf, program: drain, act: (*bench).remove,
			during: 62 * time.Second, states: "spawning running stopping killing stopped",
			reason: "stopped by the rolling restart: killed after drain_timeout 1m0s (killed by " +
				"SIGKILL after 1m1s)"},
		{name: "a drain that the operator ends", mix: deaf, program: drain, act: func(b *bench) {
			b.remove()
			b.v.RunFor(20 * time.Second)
			b.stop()
		}, during: 11 * time.Second, states: "spawning running stopping killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGKILL " +
				"after 31s)"},
		{name: "a drain that ends soon anyway", mix: deaf, program: drain, act: func(b *bench) {
			b.remove()
			b.v.RunFor(55 * time.Second)
			b.stop()
		}, during: 6 * time.Second, states: "spawning running stopping killing stopped"},
		{name: "a drain under another superd", mix: deaf, program: drain, act: func(b *bench) {
			b.remove()
			b.v.RunFor(20 * time.Second)
			b.succeed()
			b.v.RunFor(30 * time.Second)
			b.want("spawning running stopping killed", "")
			b.stop()
		}, during: 11 * time.Second,
			states: "spawning running stopping killed stopping killing stopped"},
		{name: "a drain without a time-out of its own", mix: deaf, act: (*bench).remove,
			during: 11 * time.Second, states: "spawning running stopping killing stopped"},
		{name: "leftover processes are ended after an exit", act: forkAndExit, during: time.Second,
			states: "spawning running teardown exited",
			reason: left},
		{name: "those that ignore the stop signal, too", act: forkAndExit, mix: deaf,
			during: 11 * time.Second,
			states: "spawning running teardown exited",
			reason: left},
		{name: "those that a scan finds", act: forkAndExit, during: time.Second,
			mix:    hosttest.FaultMix{ProcessScan: 1},
			states: "spawning running teardown exited",
			reason: left},
		{name: "those that SIGKILL does not end", act: forkAndExit, during: 13 * time.Second,
			mix:    hosttest.FaultMix{IgnoresStop: 1, Unkillable: 1},
			states: "spawning running teardown",
			reason: "process 3 survives SIGKILL: state D (disk sleep)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestKillMode: which processes a stop ends depends on kill_mode, whether they obey the stop signal
// or not. The fake host checks that no signal reaches other ones.
func TestKillMode(t *testing.T) {
	left := map[config.KillMode]int{ // processes besides the main one that live on
		config.KillTree: 0, config.KillMainFirst: 0, config.KillMixed: 0,
		config.KillGroup: 1, config.KillProcess: 1,
	}
	for mode, want := range left {
		for _, mix := range []hosttest.FaultMix{{}, {IgnoresStop: 1}, {ProcessScan: 1}} {
			program := testProgram()
			program.KillMode = mode
			b := newBench(t, mix, program)
			b.kernel.AllowKillMode("web", mode)
			b.start()
			b.v.RunFor(time.Second)
			b.kernel.NewProcess("web", b.in.run.invocationID, hosttest.RoleEscaped)
			b.stop()
			b.v.RunFor(time.Minute)
			if main, others := b.kernel.CountLiving("web"); main > 0 || others != want {
				t.Errorf("%s, %+v: %d main processes and %d others live, want 0 and %d",
					mode, mix, main, others, want)
			}
			if state := b.in.Machine.State(); state != fsm.Stopped {
				t.Errorf("%s, %+v: it is %v", mode, mix, state)
			}
		}
	}
}

// TestReadiness: a program is ready when its condition holds, or fails at the end of the time-out.
func TestReadiness(t *testing.T) {
	ready := func(r config.Ready) func(*config.Program) {
		r.Interval, r.Timeout = time.Second, time.Second
		return func(p *config.Program) { p.Ready = &r }
	}
	slow := hosttest.FaultMix{SlowReady: 5 * time.Second}
	never := hosttest.FaultMix{NeverReady: 1}
	late := 30 * time.Second
	tests := []scenario{
		{name: "by a message", program: ready(config.Ready{Notify: true}), mix: slow,
			states: "spawning starting running",
			reason: "started by the operator; ready after 4.99s"},
		{name: "by a newline", program: ready(config.Ready{FD: 3}), mix: slow,
			states: "spawning starting running",
			reason: "started by the operator; ready after 4.99s"},
		{name: "by a connection", program: ready(config.Ready{TCP: "web"}), mix: slow,
			states: "spawning starting running",
			reason: "started by the operator; ready after 5.9s"},
		{name: "by a command", mix: slow,
			program: ready(config.Ready{Exec: []string{hosttest.ProbeCommand}}),
			states:  "spawning starting running",
			reason:  "started by the operator; ready after 5.82s"},
		{name: "no message", program: ready(config.Ready{Notify: true}), mix: never, during: late,
			states: "spawning starting stopping backoff",
			reason: "not ready after 30s: READY=1 by sd_notify; ended by the stop signal (killed " +
				"by SIGTERM after 30s)"},
		{name: "no newline", program: ready(config.Ready{FD: 3}), mix: never, during: late,
			states: "spawning starting stopping backoff",
			reason: "not ready after 30s: a line on descriptor 3; ended by the stop signal (killed " +
				"by SIGTERM after 30s)"},
		{name: "no connection", program: ready(config.Ready{TCP: "web"}), mix: never, during: late,
			states: "spawning starting stopping backoff",
			reason: "not ready after 30s: tcp web: connection refused; ended by the stop signal " +
				"(killed by SIGTERM after 30s)"},
		{name: "no line", program: ready(config.Ready{Line: "up"}), mix: never, during: late,
			states: "spawning starting stopping backoff",
			reason: "not ready after 30s: a line that matches \"up\"; ended by the stop signal " +
				"(killed by SIGTERM after 30s)"},
		{name: "no success of a command", mix: never, during: late,
			program: ready(config.Ready{Exec: []string{hosttest.ProbeCommand}}),
			states:  "spawning starting stopping backoff",
			reason: "not ready after 30s: exec /probe: exit status 1; ended by the stop signal " +
				"(killed by SIGTERM after 30s)"},
		{name: "a message extends the time-out", program: ready(config.Ready{Notify: true}),
			mix: never, act: send(notify.Message{ExtendTimeout: time.Hour}), during: time.Minute,
			states: "spawning starting",
			reason: "started by the operator: not ready yet: READY=1 by sd_notify"},
		{name: "it is stopped", program: ready(config.Ready{Notify: true}), mix: never,
			act:    (*bench).stop,
			states: "spawning starting stopping stopped",
			reason: "stopped by the operator: ended by the stop signal (killed by SIGTERM after 1s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestCheckWaitsForTreeRecord: an exec check does not start before the journal has the record by
// which a successor finds it.
func TestCheckWaitsForTreeRecord(t *testing.T) {
	for _, stalled := range []bool{true, false} {
		b := newBench(t, hosttest.FaultMix{}, testProgram())
		b.start()
		b.v.RunFor(time.Second)
		b.stalled = stalled
		c := &execChecker{b.in.run, []string{hosttest.ProbeCommand}}
		var results []error
		c.Check(func(err error) { results = append(results, err) })
		b.v.RunFor(time.Second)
		v := b.records[snapshot.InstanceKey("web")].(*snapshot.Instance)
		if v.Probes == "" {
			t.Error("the record has no tree of the check")
		}
		if started := b.kernel.Started() > 1; started == stalled {
			t.Errorf("journal stalled: %v, check started: %v", stalled, started)
		}
		if ended := len(results) == 1 && results[0] == nil; ended == stalled {
			t.Errorf("journal stalled: %v, results %v", stalled, results)
		}
	}
}

// TestMessages: what a running program reports has its effect.
func TestMessages(t *testing.T) {
	watched := func(p *config.Program) { p.Watchdog = 10 * time.Second }
	unhealthy := func(b *bench) { b.main().Unhealthy = true }
	tests := []scenario{
		{name: "pings keep it running", program: watched,
			states: "spawning running",
			reason: "started by the operator"},
		{name: "no ping", program: watched, act: unhealthy, during: 11 * time.Second,
			states: "spawning running stopping",
			reason: "watchdog: no WATCHDOG=1 for 10s"},
		{name: "it triggers the watchdog", program: watched, during: time.Second / 2,
			act:    send(notify.Message{WatchdogTrigger: true}),
			states: "spawning running stopping",
			reason: "watchdog: WATCHDOG=trigger"},
		{name: "it reloads", program: watched, act: send(notify.Message{Reloading: true}),
			during: time.Second,
			states: "spawning running",
			reason: "started by the operator: it reloads its configuration (RELOADING=1)"},
		{name: "it stops by itself, and does not", program: watched, during: 11 * time.Second,
			act:    send(notify.Message{Stopping: true}),
			states: "spawning running stopping backoff spawning",
			reason: "started again: it sent STOPPING=1 and has not exited for 10s; ended by the " +
				"stop signal (killed by SIGTERM after 11s): open executable /sim"},
		{name: "another main process", program: watched, act: func(b *bench) {
			first := b.main()
			next := first.ForkSuccessor()
			first.Notify(notify.Message{MainPID: next.Pid})
			b.v.RunFor(time.Second)
			first.End(pidfd.Exit{Known: true})
			b.v.RunFor(time.Second)
			if b.in.Pid() != next.Pid {
				b.t.Errorf("main process %d, want %d", b.in.Pid(), next.Pid)
			}
			next.Notify(notify.Message{Watchdog: true})
		}, during: time.Second,
			states: "spawning running",
			reason: "started by the operator"},
		{name: "a main process of another program", program: watched, during: time.Second,
			act: func(b *bench) {
				other := b.kernel.NewProcess("db", "db", hosttest.RoleEscaped)
				before := b.in.Pid()
				b.main().Notify(notify.Message{MainPID: other.Pid})
				b.v.RunFor(time.Second)
				if b.in.Pid() != before {
					b.t.Errorf("main process %d, want %d", b.in.Pid(), before)
				}
			},
			states: "spawning running",
			reason: "started by the operator"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestHealth: failed checks in a row restart a program, if that is configured.
func TestHealth(t *testing.T) {
	health := func(action config.HealthAction) func(*config.Program) {
		return func(p *config.Program) {
			p.Health = &config.Health{TCP: "web", Interval: time.Second, Timeout: time.Second,
				Failures: 3, Action: action}
		}
	}
	unhealthy := func(b *bench) { b.main().Unhealthy = true }
	tests := []scenario{
		{name: "healthy", program: health(config.HealthRestart),
			states: "spawning running",
			reason: "started by the operator"},
		{name: "unhealthy", program: health(""), act: unhealthy,
			states: "spawning running",
			reason: "started by the operator: unhealthy: 61 failed checks in a row: tcp web: " +
				"connection refused"},
		{name: "an address that superd can't expand", program: func(p *config.Program) {
			health(config.HealthRestart)(p)
			p.Health.TCP = "127.0.0.1:${PORT}"
		}, states: "spawning running"},
		{name: "unhealthy, and restarted", program: health(config.HealthRestart), act: unhealthy,
			during: 4 * time.Second,
			states: "spawning running stopping backoff spawning running",
			reason: "started again: unhealthy: 3 failed checks in a row: tcp web: connection " +
				"refused; ended by the stop signal (killed by SIGTERM after 3.6s)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestRecovery: a successor continues a run where its predecessor was killed, with its deadlines.
func TestRecovery(t *testing.T) {
	deaf := hosttest.FaultMix{IgnoresStop: 1, ExitInfo: 1}
	then := func(acts ...func(*bench)) func(*bench) {
		return func(b *bench) {
			for _, act := range acts {
				act(b)
				b.v.RunFor(time.Second)
			}
		}
	}
	killed := (*bench).succeed
	stop := (*bench).stop
	notified := func(p *config.Program) { p.Ready = &config.Ready{Notify: true, Timeout: time.Second} }
	preStart := func(p *config.Program) { p.PreStart = [][]string{{hosttest.PreStartCommand}} }
	postStop := func(p *config.Program) { p.PostStop = [][]string{{hosttest.PostStopCommand}} }
	tests := []scenario{
		{name: "a running program runs on", act: killed,
			states: "spawning running killed",
			reason: "started by the operator"},
		{name: "it can be stopped", act: then(killed, stop),
			states: "spawning running killed stopping stopped",
			reason: "stopped by the operator: ended by the stop signal (exit status unknown after " +
				"2.01s)"},
		{name: "it exits", mix: hosttest.FaultMix{ExitInfo: 1}, act: then(killed, exit(0)),
			states: "spawning running killed exited",
			reason: "exit status 0 after 2.01s"},
		{name: "its exit status is lost", act: then(killed, exit(0)), during: time.Second / 2,
			states: "spawning running killed backoff spawning running",
			reason: "started again: exit status unknown after 2.01s"},
		{name: "it ended meanwhile", act: func(b *bench) {
			main := b.main()
			b.whileDown = func() {
				main.End(pidfd.Exit{Known: true})
				b.kernel.ReapForeign(main)
			}
			b.succeed()
		}, during: time.Second / 2,
			states: "spawning running killed backoff",
			reason: "exit status unknown after 1s"},
		{name: "a stop ends at its deadline", mix: deaf, act: then(stop, killed),
			during: 7*time.Second + time.Second/2,
			states: "spawning running stopping killed",
			reason: "stop requested by the operator"},
		{name: "and not later", mix: deaf, act: then(stop, killed), during: 9 * time.Second,
			states: "spawning running stopping killed killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGKILL " +
				"after 11s)"},
		{name: "SIGKILL is repeated", mix: hosttest.FaultMix{IgnoresStop: 1, Unkillable: 1},
			act:    then(stop, func(b *bench) { b.v.RunFor(10 * time.Second) }, killed),
			states: "spawning running stopping killing killed killing",
			reason: "process 2 survives SIGKILL: state D (disk sleep)"},
		{name: "the start time-out goes on", program: notified,
			mix: hosttest.FaultMix{NeverReady: 1}, act: killed, during: 30 * time.Second,
			states: "spawning starting killed stopping backoff",
			reason: "not ready after 30s: READY=1 by sd_notify; ended by the stop signal (exit " +
				"status unknown after 30s)"},
		{name: "a pre_start hook runs on", program: preStart, act: killed,
			mix: hosttest.FaultMix{HookHangs: 1}, during: 10 * time.Second,
			states: "spawning killed",
			reason: "started by the operator: running pre_start /hook"},
		{name: "and ends with its time-out", program: preStart, act: killed,
			mix: hosttest.FaultMix{HookHangs: 1, ExitInfo: 1}, during: 29*time.Second + time.Second/2,
			states: "spawning killed backoff",
			reason: "pre_start /hook: still running after start_timeout 30s"},
		{name: "a start before the fork begins anew", mix: hosttest.FaultMix{SpawnHangs: 1},
			act: func(b *bench) {
				b.kernel.Mix.SpawnHangs = 0
				b.succeed()
			},
			states: "spawning killed running",
			reason: "started by the operator"},
		{name: "a teardown goes on", mix: deaf, act: then(forkAndExit, killed),
			states: "spawning running teardown killed exited",
			reason: left},
		{name: "a post_stop hook runs on", program: postStop, act: then(stop, killed),
			mix: hosttest.FaultMix{HookHangs: 1}, during: 10 * time.Second,
			states: "spawning running stopping teardown killed",
			reason: "stop requested by the operator: running post_stop /after"},
		{name: "a restart comes when it is due", act: then(exit(3), killed),
			program: func(p *config.Program) { p.Backoff.Initial = 10 * time.Second },
			during:  7*time.Second + time.Second/2,
			states:  "spawning running backoff killed",
			reason:  "exit status 3 after 1s"},
		{name: "and then", act: then(exit(3), killed), during: 9 * time.Second,
			program: func(p *config.Program) { p.Backoff.Initial = 10 * time.Second },
			states:  "spawning running backoff killed spawning running",
			reason:  "started again: exit status 3 after 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestQuarantine: while leftover processes of unknown runs live, nothing is started.
func TestQuarantine(t *testing.T) {
	quarantined := func(t *testing.T) (*bench, *hosttest.Process) {
		b := newBench(t, hosttest.FaultMix{}, testProgram())
		p := b.kernel.NewProcess("web", "lost", hosttest.RoleEscaped)
		b.in.Machine.SetDesired(true, fsm.By(fsm.ActorOperator))
		b.in.QuarantineWithScan([]host.Leftover{{Pid: p.Pid, Command: "sim"}})
		b.v.RunFor(time.Minute)
		if !b.in.Quarantined() || b.in.HasRun() {
			t.Fatal("it is started while a leftover process lives")
		}
		return b, p
	}
	t.Run("it ends by itself", func(t *testing.T) {
		b, p := quarantined(t)
		p.End(pidfd.Exit{Known: true})
		b.v.RunFor(time.Second)
		b.want("spawning running", "started by the operator")
	})
	t.Run("the operator ends it", func(t *testing.T) {
		b, _ := quarantined(t)
		b.in.Machine.SetDesired(false, fsm.By(fsm.ActorOperator))
		b.in.Quarantine.Kill()
		b.v.RunFor(time.Minute)
		b.want("teardown stopped",
			"stopped by the operator: leftover processes of an earlier run ended")
		b.close()
	})
}
