package instance

import (
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/notify"
)

const pidFile = "/run/web.pid"

// forking makes a program forking. Its command forks the main process and ends, as the mix says.
func forking(p *config.Program) { p.Type = config.TypeForking }

// withPIDFile is forking with a pid file.
func withPIDFile(p *config.Program) { p.Type, p.PIDFile = config.TypeForking, pidFile }

// fork lets the main process fork n processes and exit with that status.
func fork(n, code int) func(*bench) {
	return func(b *bench) {
		command := b.main()
		for range n {
			command.ForkSuccessor()
		}
		command.End(pidfd.Exit{Known: true, Code: code})
	}
}

// writes lets somebody write the pid of the newest process, plus add, to the pid file.
func writes(add int) func(*bench) {
	return func(b *bench) {
		newest := 0
		for p := range b.kernel.Processes() {
			newest = max(newest, p.Pid)
		}
		b.kernel.PIDFiles[pidFile] = newest + add
	}
}

// endAll ends all processes.
func endAll(b *bench) {
	for p := range b.kernel.Processes() {
		p.End(pidfd.Exit{Known: true})
	}
}

// then acts one after the other, a second apart.
func then(acts ...func(*bench)) func(*bench) {
	return func(b *bench) {
		for _, act := range acts {
			act(b)
			b.v.RunFor(time.Second)
		}
	}
}

// TestForking: the main process of a forking program is found when its command has ended, and the
// program is ready then.
func TestForking(t *testing.T) {
	byHand := hosttest.FaultMix{NoLaunch: 3, ExitInfo: 1} // the command does nothing by itself
	killed := (*bench).succeed
	tests := []scenario{
		{name: "the one process that is left", program: forking,
			states: "spawning starting running",
			reason: "started by the operator; ready after 350ms"},
		{name: "it serves", program: forking, act: exit(3), during: time.Second / 2,
			states: "spawning starting running backoff", reason: "exit status 3 after 1s"},
		{name: "its end with success is no failure", program: forking, act: exit(0),
			states: "spawning starting running exited", reason: "exit status 0 after 1s"},
		{name: "post_start follows", mix: byHand, act: fork(1, 0),
			program: func(p *config.Program) {
				forking(p)
				p.PostStart = [][]string{{hosttest.BesideCommand}}
			},
			states: "spawning starting running"},
		{name: "a readiness check follows", mix: hosttest.FaultMix{SlowReady: 5 * time.Second},
			program: func(p *config.Program) {
				forking(p)
				p.Ready = &config.Ready{TCP: "web", Interval: time.Second, Timeout: time.Second}
			},
			states: "spawning starting running"},
		{name: "the command does not end", program: forking, mix: byHand, during: 30 * time.Second,
			states: "spawning starting stopping backoff",
			reason: "not ready after 30s: waits for the end of its command; ended by the stop signal " +
				"(killed by SIGTERM after 30s)"},
		{name: "the command fails", program: forking, mix: byHand, act: fork(1, 1),
			during: time.Second / 2,
			states: "spawning starting teardown backoff",
			reason: "exit status 1 after 1s, before it was ready"},
		{name: "it leaves no process", program: forking, mix: byHand, act: fork(0, 0),
			during: time.Second / 2, states: "spawning starting backoff",
			reason: "exit status 0 after 1s, it left no process, before it was ready"},
		{name: "it leaves several", program: forking, mix: byHand, act: fork(2, 0),
			during: 2 * time.Second,
			states: "spawning starting teardown backoff",
			reason: "exit status 0 after 2.55s, it left 2 processes, and any may be the main one: " +
				"sim (3), sim (4); set pid_file to the file in which it writes its pid, before it was ready"},
		{name: "it leaves many", program: forking, mix: byHand, act: fork(8, 0),
			during: 2 * time.Second,
			states: "spawning starting teardown backoff",
			reason: "exit status 0 after 2.55s, it left 8 processes, and any may be the main one: " +
				"sim (3), sim (4), sim (5), sim (6), sim (7), and 3 more; set pid_file to the file in which " +
				"it writes its pid, before it was ready"},
		{name: "it leaves several for a while", program: forking, mix: byHand, act: func(b *bench) {
			fork(2, 0)(b)
			b.v.RunFor(900 * time.Millisecond)
			b.kernel.Process(3).End(pidfd.Exit{Known: true})
		}, states: "spawning starting running"},
		{name: "it leaves another one for a while", program: forking, mix: byHand, act: func(b *bench) {
			fork(1, 0)(b)
			b.v.RunFor(200 * time.Millisecond)
			b.kernel.Process(3).ForkSuccessor()
			b.kernel.Process(3).End(pidfd.Exit{Known: true})
		}, states: "spawning starting running"},
		{name: "it can't be opened", program: forking, mix: byHand, act: func(b *bench) {
			b.kernel.OpenErr = syscall.EMFILE
			fork(1, 0)(b)
		}, during: 10 * time.Second, states: "spawning starting",
			reason: "started by the operator: not ready yet: waits for its main process: open process 3: " +
				"too many open files"},
		{name: "MAINPID= names it as the search fails", program: func(p *config.Program) {
			forking(p)
			p.Watchdog = time.Hour
		}, mix: byHand, act: then(fork(2, 0), func(b *bench) {
			b.v.RunFor(549 * time.Millisecond)
			r := b.in.run
			(*port)(r).LaunchFailed("it left 2 processes")
			r.main.change(4)
			b.v.RunFor(time.Second)
		}, exit(3)), during: time.Millisecond,
			states: "spawning starting running teardown backoff spawning starting",
			reason: "started again: exit status 3 after 4.55s: not ready yet: " +
				"waits for the end of its command"},
		{name: "pid file", program: withPIDFile, states: "spawning starting running"},
		{name: "it is late", program: withPIDFile, mix: byHand,
			act:    then(fork(2, 0), writes(0)),
			states: "spawning starting running"},
		{name: "it is old, then right", program: withPIDFile, mix: byHand,
			act:    then(writes(9), fork(2, 0), writes(0)),
			states: "spawning starting running"},
		{name: "it never comes", program: withPIDFile, mix: byHand, act: fork(1, 0),
			during: 29*time.Second + 10*time.Millisecond,
			states: "spawning starting stopping teardown backoff",
			reason: "not ready after 30s: waits for /run/web.pid: there is no such file; ended by the " +
				"stop signal (exit status 0 after 30s)"},
		{name: "it names a foreign process", program: withPIDFile, mix: byHand,
			act: then(fork(1, 0), writes(9)), during: 20 * time.Second,
			states: "spawning starting",
			reason: "started by the operator: not ready yet: waits for /run/web.pid: it names process " +
				"12, which is no live process of the program"},
		{name: "its file system hangs", program: withPIDFile, mix: byHand, act: func(b *bench) {
			b.kernel.PIDFilesHang = true
			fork(1, 0)(b)
		}, during: 2 * time.Second, states: "spawning starting",
			reason: "started by the operator: not ready yet: waits for /run/web.pid: it is still being " +
				"read: its file system may hang"},
		{name: "the processes end meanwhile", program: withPIDFile, mix: byHand,
			act:    then(fork(1, 0), endAll),
			during: time.Second / 2, states: "spawning starting backoff",
			reason: "exit status 0 after 2.57s, it left no process, before it was ready"},
		{name: "stopped meanwhile", program: withPIDFile, mix: byHand,
			act:    then(fork(1, 0), (*bench).stop),
			states: "spawning starting stopping teardown stopped",
			reason: "stopped by the operator: ended by the stop signal (exit status 0 after 2s)"},
		{name: "processes of an earlier run do not count", program: func(p *config.Program) {
			forking(p)
			p.KillMode = config.KillProcess
		}, act: then(func(b *bench) {
			b.kernel.AllowKillMode("web", config.KillProcess)
			b.main().ForkSuccessor()
		}, exit(3)), end: endAll, states: "spawning starting running backoff spawning starting running"},
		{name: "MAINPID= names it", mix: byHand, program: func(p *config.Program) {
			withPIDFile(p)
			p.Watchdog = time.Hour
		}, act: then(fork(1, 0), func(b *bench) {
			b.main().Notify(notify.Message{MainPID: 3})
		}), states: "spawning starting running"},
		{name: "another pid file", program: withPIDFile, mix: byHand,
			act: then(fork(1, 0), writes(0), func(b *bench) {}, func(b *bench) {
				b.redefine(func(p *config.Program) { p.PIDFile = "/run/other.pid" })
			}), states: "spawning starting running"},

		{name: "superd is killed while the command runs", program: withPIDFile, mix: byHand,
			act:    then(killed, fork(1, 0), writes(0)),
			states: "spawning starting killed running"},
		{name: "superd is killed while it waits for the pid file", program: withPIDFile, mix: byHand,
			act:    then(fork(1, 0), killed, writes(0)),
			states: "spawning starting killed running"},
		{name: "superd is killed when the program runs", program: withPIDFile, mix: byHand,
			act:    then(fork(1, 0), writes(0), killed, exit(3)),
			during: time.Millisecond,
			states: "spawning starting running killed backoff"},
		{name: "the command ends while no superd runs", program: withPIDFile, mix: byHand,
			act: then(func(b *bench) {
				b.whileDown = func() {
					fork(1, 0)(b)
					writes(0)(b)
				}
				b.succeed()
			}), states: "spawning starting killed running"},
		{name: "the command fails while no superd runs", program: withPIDFile, mix: byHand,
			act: then(func(b *bench) {
				b.whileDown = func() { fork(1, 4)(b) }
				b.succeed()
			}), during: time.Millisecond, states: "spawning starting killed teardown backoff",
			reason: "exit status 4 after 1.01s, before it was ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestStopDuringSearch: a stop while the main process is searched ends all that the run has started
// in any kill_mode, and nothing that the kill_mode has spared before.
func TestStopDuringSearch(t *testing.T) {
	for _, mode := range []config.KillMode{config.KillProcess, config.KillGroup} {
		for _, deaf := range []bool{false, true} {
			program := testProgram()
			forking(program)
			program.KillMode = mode
			b := newBench(t, hosttest.FaultMix{NoLaunch: 3, ExitInfo: 1}, program)
			b.kernel.AllowKillMode("web", mode)
			b.start()
			b.v.RunFor(time.Second)
			fork(1, 0)(b)
			b.v.RunFor(time.Second)
			spared := b.main().ForkSuccessor()
			spared.Group = spared.Pid
			b.main().End(pidfd.Exit{Known: true, Code: 1})
			b.v.RunFor(2 * time.Second) // it has started again
			command := b.main()
			daemon := command.ForkSuccessor()
			daemon.Group, daemon.IgnoresStop = daemon.Pid, deaf
			command.End(pidfd.Exit{Known: true})
			b.v.RunFor(100 * time.Millisecond)
			b.stop()
			b.v.RunFor(time.Minute)
			if b.in.Machine.State() != fsm.Stopped || !daemon.Zombie || spared.Zombie {
				t.Errorf("%s, deaf %v: %v, the daemon has ended: %v, one of an earlier run: %v; want the daemon only",
					mode, deaf, b.in.Machine.State(), daemon.Zombie, spared.Zombie)
			}
			spared.End(pidfd.Exit{Known: true})
			b.v.RunFor(time.Minute)
			b.close()
		}
	}
}

// TestGroupOfForkingProgram: a daemon that has forked twice does not lead its process group, which
// a stop by kill_mode = "group" ends, and nothing else.
func TestGroupOfForkingProgram(t *testing.T) {
	for _, announced := range []bool{false, true} {
		program := testProgram()
		withPIDFile(program)
		program.KillMode, program.Watchdog = config.KillGroup, time.Hour
		b := newBench(t, hosttest.FaultMix{NoLaunch: 3, ExitInfo: 1}, program)
		b.start()
		b.v.RunFor(time.Second)
		command := b.main()
		helper, daemon, apart := command.ForkSuccessor(), command.ForkSuccessor(), command.ForkSuccessor()
		const group = 99 // of the process between them and the command
		helper.Group, daemon.Group, daemon.IgnoresStop = group, group, true
		if announced {
			command.Notify(notify.Message{MainPID: daemon.Pid})
		} else {
			b.kernel.PIDFiles[pidFile] = daemon.Pid
		}
		command.End(pidfd.Exit{Known: true})
		b.v.RunFor(time.Minute)
		b.want("spawning starting running", "")
		b.succeed() // it is in the record
		b.stop()
		b.v.RunFor(time.Second)
		if b.want("spawning starting running killed stopping", ""); !helper.Zombie || daemon.Zombie || apart.Zombie {
			t.Errorf("announced %v: stopped: helper %v, daemon %v, other group %v; want only the helper",
				announced, helper.Zombie, daemon.Zombie, apart.Zombie)
		}
		late := command.ForkSuccessor()
		late.Group = group
		b.v.RunFor(time.Minute)
		if b.want("spawning starting running killed stopping killing teardown stopped", ""); !late.Zombie || apart.Zombie {
			t.Errorf("announced %v: late member of the group stopped %v, other group %v; want the member",
				announced, late.Zombie, apart.Zombie)
		}
		apart.End(pidfd.Exit{Known: true})
		b.v.RunFor(time.Minute)
		b.close()
	}
}
