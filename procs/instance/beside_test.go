package instance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/beside"
	"superd/procs/notify"
)

var (
	besideCommand = []string{hosttest.BesideCommand}
	besideStops   = []string{hosttest.BesideCommand, hosttest.StopArgument}
)

// TestPostStart: post_start hooks follow the readiness condition, and the program is ready after
// them.
func TestPostStart(t *testing.T) {
	two := func(p *config.Program) { p.PostStart = [][]string{besideCommand, besideCommand} }
	notifying := func(p *config.Program) {
		two(p)
		p.Ready = &config.Ready{Notify: true}
	}
	tests := []scenario{
		{name: "the program is ready after them", program: two,
			states: "spawning starting running"},
		{name: "they follow the readiness condition", program: notifying,
			mix:    hosttest.FaultMix{SlowReady: 5 * time.Second},
			states: "spawning starting running"},
		{name: "one fails", program: two, mix: hosttest.FaultMix{HookFails: 1},
			during: time.Millisecond,
			states: "spawning starting stopping backoff"},
		{name: "one hangs", program: two, mix: hosttest.FaultMix{HookHangs: 1},
			during: 29*time.Second + 50*time.Millisecond,
			states: "spawning starting stopping teardown backoff",
			reason: "post_start /beside: still running after start_timeout 30s; ended by the stop " +
				"signal (killed by SIGTERM after 30s)"},
		{name: "one that hangs is stopped", program: two, mix: hosttest.FaultMix{HookHangs: 1},
			act:    (*bench).stop,
			states: "spawning starting stopping teardown stopped"},
		{name: "the program exits during one", program: two, mix: hosttest.FaultMix{HookHangs: 1},
			act: exit(0), during: 50 * time.Millisecond,
			states: "spawning starting teardown backoff"},
		{name: "one has no worker", program: two, mix: hosttest.FaultMix{}, act: func(b *bench) {
			b.kernel.Mix.SpawnHangs = 1
			b.in.Apply(b.in.Machine.WantRestart(fsm.By(fsm.ActorOperator), true, b.in.Conditions()))
		}, during: time.Second, states: "spawning starting running stopping spawning"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestUserOfCommands: all commands beside the main process run as hooks_user.
func TestUserOfCommands(t *testing.T) {
	program := testProgram()
	program.PostStart, program.ReloadCommand = [][]string{besideCommand}, besideCommand
	program.CheckCommand, program.StopCommand = besideCommand, besideStops
	program.HooksUser = "root"
	b := newBench(t, hosttest.FaultMix{}, program)
	var users []string
	b.kernel.OnSpawn = func(spec *host.SpawnSpec) { users = append(users, spec.User) }
	b.start()
	b.v.RunFor(time.Second)
	b.in.Reload(func(beside.Outcome) {})
	b.v.RunFor(time.Second)
	b.stop()
	b.v.RunFor(time.Minute)
	if want := []string{"", "root", "root", "root", "root"}; !slices.Equal(users, want) {
		t.Errorf("users %q of program, post_start, check, reload and stop; want %q", users, want)
	}
	b.close()
}

// TestPostStartRedefined: the hooks of a start that is under way stay the same, and a longer
// start_timeout holds for them.
func TestPostStartRedefined(t *testing.T) {
	program := testProgram()
	program.PostStart = [][]string{besideCommand, besideCommand}
	b := newBench(t, hosttest.FaultMix{HookHangs: 1}, program)
	b.start()
	b.v.RunFor(time.Second)
	b.redefine(func(p *config.Program) { p.PostStart, p.StartTimeout = nil, time.Minute })
	b.v.RunFor(50 * time.Second)
	b.want("spawning starting", "")
	b.kernel.Mix = hosttest.FaultMix{}
	for p := range b.kernel.Processes() {
		if p.Role == hosttest.RoleBeside {
			p.End(pidfd.Exit{Known: true})
		}
	}
	b.v.RunFor(time.Minute)
	b.want("spawning starting running", "")
	if n := b.kernel.Started(); n != 3 {
		t.Errorf("%d processes started, want the program and both hooks", n)
	}
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestPostStartInQueue: the time in the queue of spawns does not count.
func TestPostStartInQueue(t *testing.T) {
	program := testProgram()
	program.PostStart = [][]string{besideCommand}
	b := newBench(t, hosttest.FaultMix{}, program)
	b.kernel.QueuesHung = true
	b.kernel.OnSpawn = func(spec *host.SpawnSpec) {
		b.kernel.Mix.SpawnHangs = 0
		if hosttest.RoleOf(spec.Program) == hosttest.RoleBeside {
			b.kernel.Mix.SpawnHangs = 1
		}
	}
	b.start()
	b.v.RunFor(time.Hour)
	b.want("spawning starting", "")
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestPostStartInShortage: a hook that a resource shortage prevents is started again, and nothing
// counts as a failure.
func TestPostStartInShortage(t *testing.T) {
	program := testProgram()
	program.PostStart = [][]string{besideCommand}
	b := newBench(t, hosttest.FaultMix{}, program)
	b.kernel.OnSpawn = func(spec *host.SpawnSpec) {
		if hosttest.RoleOf(spec.Program) == hosttest.RoleBeside {
			b.kernel.Mix = hosttest.FaultMix{SpawnFails: 1, Shortage: 1}
		}
	}
	b.start()
	b.v.RunFor(time.Minute)
	b.want("spawning starting", "")
	if text, want := b.in.run.beside.Stage(), "tried again"; !strings.HasSuffix(text, want) {
		t.Errorf("stage %q, want %q", text, want)
	}
	b.kernel.Mix, b.kernel.OnSpawn = hosttest.FaultMix{}, nil
	b.v.RunFor(time.Minute)
	b.want("spawning starting running", "")
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestCheckNotRun: a check that could not be run differs from one that has found a mistake.
func TestCheckNotRun(t *testing.T) {
	program := testProgram()
	program.CheckCommand = besideCommand
	b := newBench(t, hosttest.FaultMix{}, program)
	b.start()
	b.v.RunFor(time.Second)
	b.kernel.Mix = hosttest.FaultMix{SpawnFails: 1, Shortage: 1}
	var got beside.Outcome
	CheckConfiguration(b.in, func(o beside.Outcome) { got = o })
	b.v.RunFor(time.Second)
	want := "check_command /beside: could not be run: execute: resource temporarily unavailable"
	if got.OK || got.Message != want {
		t.Errorf("%v, want %q", got, want)
	}
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestCommandAfterUnkillableCheck: a command that waits for an unkillable check ends, and does not
// excuse the program's health.
func TestCommandAfterUnkillableCheck(t *testing.T) {
	program := testProgram()
	program.ReloadCommand = besideCommand
	program.Health = &config.Health{
		Exec: []string{hosttest.ProbeCommand}, Interval: time.Second, Timeout: time.Second,
		Failures: 100, Action: config.HealthRestart,
	}
	b := newBench(t, hosttest.FaultMix{CheckHangs: 1, Unkillable: 1}, program)
	b.start()
	b.v.RunFor(5 * time.Second)
	var got []beside.Outcome
	b.in.Reload(func(o beside.Outcome) { got = append(got, o) })
	b.v.RunFor(time.Second)
	if b.in.run.beside.Delay(b.v.Now()) {
		t.Error("a command that waits delays checks")
	}
	b.v.RunFor(32 * time.Second)
	want := "reload_command /beside: could not be run: waited for an earlier check: process 3 of a " +
		"check survives SIGKILL: state D (disk sleep)"
	if len(got) != 1 || got[0].OK || got[0].Message != want {
		t.Errorf("outcomes %v, want %q", got, want)
	}
	b.stop()
	b.v.RunFor(2 * time.Hour)
	b.close()
}

// TestStopCommand: stop_command and its effect have the stop time-out, the stop signal has another.
func TestStopCommand(t *testing.T) {
	command := func(words []string) func(*config.Program) {
		return func(p *config.Program) { p.StopCommand = words }
	}
	stop := (*bench).stop
	tests := []scenario{
		{name: "it stops the program", program: command(besideStops), act: stop,
			states: "spawning running stopping stopped",
			reason: "stopped by the operator: ended by stop_command (exit status 0 after 1.91s)"},
		{name: "it has no effect", program: command(besideCommand), act: stop,
			states: "spawning running stopping stopped",
			reason: "stopped by the operator: ended by the stop signal (killed by SIGTERM after 11s)"},
		{name: "it fails", program: command(besideCommand), act: stop, mix: hosttest.FaultMix{HookFails: 1},
			during: time.Second, states: "spawning running stopping stopped"},
		{name: "it hangs", program: command(besideCommand), act: stop, mix: hosttest.FaultMix{HookHangs: 1},
			states: "spawning running stopping teardown stopped"},
		{name: "it may take as long as the program asks for", program: func(p *config.Program) {
			p.StopCommand, p.Ready = besideCommand, &config.Ready{Notify: true}
		}, mix: hosttest.FaultMix{HookHangs: 1}, act: func(b *bench) {
			b.stop()
			b.main().Notify(notify.Message{ExtendTimeout: 50 * time.Second})
		}, during: 40 * time.Second, states: "spawning starting running stopping"},
		{name: "it may take as long as a reload allows", program: command(besideCommand),
			mix: hosttest.FaultMix{HookHangs: 1}, act: func(b *bench) {
				b.stop()
				b.v.RunFor(time.Second)
				b.redefine(func(p *config.Program) { p.StopTimeout = time.Minute })
			}, during: 40 * time.Second, states: "spawning running stopping"},
		{name: "it outlives the program", program: command(besideStops), act: stop,
			mix: hosttest.FaultMix{HookHangs: 1}, during: 9 * time.Second,
			states: "spawning running stopping teardown"},
		{name: "it outlives the program for the stop time-out", program: command(besideStops), act: stop,
			mix: hosttest.FaultMix{HookHangs: 1}, during: 11 * time.Second,
			states: "spawning running stopping teardown stopped"},
		{name: "nothing stops the program", program: command(besideStops), act: stop,
			mix:    hosttest.FaultMix{IgnoresStop: 1},
			states: "spawning running stopping killing stopped",
			reason: "stopped by the operator: killed after stop_timeout 10s (killed by SIGKILL after 21s)"},
		{name: "it is for a program that was ready", mix: hosttest.FaultMix{NeverReady: 1},
			program: func(p *config.Program) {
				p.StopCommand, p.Ready = besideCommand, &config.Ready{Notify: true}
			}, act: stop, during: time.Second, states: "spawning starting stopping stopped"},
		{name: "in a hurry it is not run", program: command(besideCommand), act: func(b *bench) {
			b.phase.Hurry = true
			b.stop()
		}, during: time.Second, states: "spawning running stopping killing stopped"},
		{name: "a hurry ends what it leaves", program: command(besideStops), act: func(b *bench) {
			b.stop()
			b.v.RunFor(10 * time.Millisecond)
			child := b.kernel.NewProcess("web", b.in.run.invocationID, hosttest.RoleEscaped)
			child.IgnoresStop = true
			b.v.RunFor(2 * time.Second)
			b.phase.Hurry = true
			b.in.Hurry()
		}, during: time.Second, states: "spawning running stopping teardown stopped"},
		{name: "a hurry ends it", program: command(besideCommand), mix: hosttest.FaultMix{HookHangs: 1, IgnoresStop: 1},
			act: func(b *bench) {
				b.stop()
				b.v.RunFor(time.Second)
				b.phase.Hurry = true
				b.in.Hurry()
			}, during: time.Second, states: "spawning running stopping killing stopped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestReload: what a reload by the operator answers.
func TestReload(t *testing.T) {
	signal := func(p *config.Program) { p.ReloadSignal = 1 }
	checked := func(p *config.Program) { p.ReloadSignal, p.CheckCommand = 1, besideCommand }
	command := func(p *config.Program) { p.ReloadCommand = besideCommand }
	confirmed := func(p *config.Program) {
		p.ReloadSignal, p.ReloadNotify, p.Ready = 1, true, &config.Ready{Notify: true}
	}
	after := func(d time.Duration, m notify.Message) func(*bench) {
		return func(b *bench) { b.v.Root().After(d, func() { b.main().Notify(m) }) }
	}
	all := func(steps ...func(*bench)) func(*bench) {
		return func(b *bench) {
			for _, step := range steps {
				step(b)
			}
		}
	}
	tests := []struct {
		name    string
		program func(*config.Program)
		mix     hosttest.FaultMix
		act     func(*bench) // just after the request
		says    string
		output  bool
	}{
		{name: "no way to reload", program: func(*config.Program) {}, says: "it has no reload_signal and no reload_command"},
		{name: "by a signal", program: signal, says: "OK: reloaded: SIGHUP sent to process 2"},
		{name: "by a command", program: command, says: "OK: reloaded"},
		{name: "the command fails", program: command, mix: hosttest.FaultMix{HookFails: 1},
			says: "reload_command /beside: exit status 1", output: true},
		{name: "the check succeeds", program: checked, says: "OK: reloaded: SIGHUP sent"},
		{name: "the check fails", program: checked, mix: hosttest.FaultMix{HookFails: 1},
			says: "check_command /beside: exit status 1", output: true},
		{name: "the check hangs", program: checked, mix: hosttest.FaultMix{HookHangs: 1},
			says: "check_command /beside: still running after start_timeout 30s", output: true},
		{name: "the program is stopped during the check", program: checked, mix: hosttest.FaultMix{HookHangs: 1},
			act: (*bench).stop, says: "not reloaded: stop requested by the operator"},
		{name: "the program exits during the check", program: checked, mix: hosttest.FaultMix{HookHangs: 1},
			act: exit(0), says: "not reloaded: exit status 0"},
		{name: "confirmed", program: confirmed, act: all(
			after(time.Second, notify.Message{Reloading: true}), after(2*time.Second, notify.Message{Ready: true})), says: "OK: reloaded"},
		{name: "confirmed too early", program: confirmed, act: all(
			after(time.Second, notify.Message{Reloading: true, Monotonic: 1}), after(2*time.Second, notify.Message{Ready: true})),
			says: "no RELOADING=1 within start_timeout 30s"},
		{name: "confirmed, and never ready", program: confirmed, act: after(time.Second, notify.Message{Reloading: true}),
			says: "no READY=1 within start_timeout 30s"},
		{name: "with more time", program: confirmed, act: all(
			after(time.Second, notify.Message{Reloading: true, ExtendTimeout: time.Minute}),
			after(50*time.Second, notify.Message{Ready: true})), says: "OK: reloaded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			program := testProgram()
			tt.program(program)
			b := newBench(t, hosttest.FaultMix{}, program)
			b.start()
			b.v.RunFor(time.Second)
			b.kernel.Mix = tt.mix
			var got []beside.Outcome
			b.in.Reload(func(o beside.Outcome) { got = append(got, o) })
			if tt.act != nil {
				b.v.RunFor(time.Millisecond)
				tt.act(b)
			}
			b.v.RunFor(2 * time.Minute)
			if len(got) != 1 {
				t.Fatalf("%d outcomes: %v; want one", len(got), got)
			}
			text := got[0].Message
			if got[0].OK {
				text = "OK: " + text
			}
			if !strings.HasPrefix(text, tt.says) || tt.output != slices.Contains(got[0].Output, hosttest.CommandOutput) {
				t.Errorf("%q, output %q; want %q, output %v", text, got[0].Output, tt.says, tt.output)
			}
			b.kernel.Mix = hosttest.FaultMix{}
			b.stop()
			b.v.RunFor(time.Hour)
			b.close()
		})
	}
}

// TestReloadsQueue: a reload that is requested during another one follows it.
func TestReloadsQueue(t *testing.T) {
	program := testProgram()
	program.ReloadCommand = besideCommand
	b := newBench(t, hosttest.FaultMix{}, program)
	b.start()
	b.v.RunFor(time.Second)
	started := b.kernel.Started()
	answers := 0
	for range 3 {
		b.in.Reload(func(o beside.Outcome) {
			if o.OK {
				answers++
			}
		})
	}
	b.v.RunFor(time.Minute)
	if n := b.kernel.Started() - started; n != 2 || answers != 3 {
		t.Errorf("%d commands, %d answers; want 2 and 3: the last two share one", n, answers)
	}
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestHealthDuringReload: an exec check of health that waits for a command does not count.
func TestHealthDuringReload(t *testing.T) {
	program := testProgram()
	program.ReloadCommand = besideCommand
	program.Health = &config.Health{
		Exec: []string{hosttest.ProbeCommand}, Interval: time.Second, Timeout: time.Second,
		Failures: 2, Action: config.HealthRestart,
	}
	b := newBench(t, hosttest.FaultMix{}, program)
	b.start()
	b.v.RunFor(time.Minute)
	b.kernel.Mix.HookHangs = 1
	b.in.Reload(func(beside.Outcome) {})
	b.v.RunFor(time.Minute)
	b.want("spawning running", "started by the operator")
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}

// TestCheckEndsWithTheRun: a check before a restart is over when the program ends.
func TestCheckEndsWithTheRun(t *testing.T) {
	program := testProgram()
	program.CheckCommand = besideCommand
	b := newBench(t, hosttest.FaultMix{}, program)
	b.start()
	b.v.RunFor(time.Second)
	b.kernel.Mix.HookHangs = 1
	answers := 0
	CheckConfiguration(b.in, func(o beside.Outcome) { answers++ })
	b.v.RunFor(time.Second)
	b.main().End(pidfd.Exit{Known: true})
	b.v.RunFor(time.Minute)
	if answers != 1 || b.in.probing() {
		t.Errorf("%d answers, a check is under way: %v; want 1, false", answers, b.in.probing())
	}
	b.stop()
	b.v.RunFor(time.Minute)
	b.close()
}
