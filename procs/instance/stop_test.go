package instance

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/paths"
	"superd/procs/snapshot"
)

// TestNotKilledIsRecordedOnce: with final_kill = false it is recorded once a run that processes
// outlive the stop time-out, though superd is restarted, and the main process leaves others.
func TestNotKilledIsRecordedOnce(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.NoFinalKill = true })
	main := b.main()
	main.IgnoresStop = true
	recorded := func() (n int) {
		for _, e := range b.events {
			if e.Kind == eventlog.State && e.ReasonKind == fsm.ReasonNotKilled.String() {
				n++
			}
		}
		return n
	}
	b.stop()
	b.v.RunFor(time.Minute)
	for range 2 {
		b.succeed()
		b.v.RunFor(time.Minute)
	}
	child := b.kernel.NewProcess("web", b.in.run.invocationID, hosttest.RoleEscaped)
	child.IgnoresStop = true
	main.End(pidfd.Exit{Known: true})
	b.v.RunFor(time.Minute)
	if n := recorded(); n != 1 || b.in.Machine.State() != fsm.TearingDown {
		t.Errorf("recorded %d times, %v; want once, and that it waits", n, b.in.Machine.State())
	}
	child.End(pidfd.Exit{Known: true})
	b.v.RunFor(time.Minute)
	b.start()
	b.v.RunFor(time.Second)
	b.main().IgnoresStop = true
	b.stop()
	b.v.RunFor(time.Minute)
	if n := recorded(); n != 2 {
		t.Errorf("recorded %d times, want it once more for the second run", n)
	}
	b.main().End(pidfd.Exit{Known: true})
	b.v.RunFor(time.Minute)
	b.close()
}

// TestForkChain: processes that fork while they are killed are all killed, by any kill signal.
func TestForkChain(t *testing.T) {
	for _, signal := range []string{"SIGKILL", "SIGQUIT"} {
		b := runningBench(t, func(p *config.Program) {
			if signal != "SIGKILL" {
				p.KillSignal = 3
			}
		})
		b.kernel.Mix.ProcessScan, b.kernel.Mix.IgnoresStop = 1, 1
		b.main().IgnoresStop = true
		const length = 20
		forks := 0
		var fork func()
		fork = func() {
			if forks++; forks > length {
				return
			}
			child := b.kernel.NewProcess("web", b.in.run.invocationID, hosttest.RoleEscaped)
			child.OnEnd(fork)
		}
		fork()
		b.stop()
		b.v.RunFor(time.Minute)
		if b.in.Machine.State() != fsm.Stopped || forks <= length {
			t.Errorf("by %s: %v after %d forks, want it stopped after %d", signal, b.in.Machine.State(), forks, length)
		}
		b.close()
	}
}

// TestHookInQueue: the time in the queue of spawns does not count for a hook.
func TestHookInQueue(t *testing.T) {
	program := testProgram()
	program.PreStart = [][]string{{hosttest.PreStartCommand}}
	b := newBench(t, hosttest.FaultMix{SlowSpawn: 29 * time.Second, HookHangs: 1}, program)
	b.start()
	hook := func() *hosttest.Process {
		for p := range b.kernel.Processes() {
			if p.Role == hosttest.RolePreStart {
				return p
			}
		}
		return nil
	}
	began := b.v.Now()
	for hook() == nil {
		b.v.RunFor(time.Second)
	}
	queued := b.v.Now() - began
	b.v.RunFor(29 * time.Second)
	if queued < 2*time.Second || hook() == nil || b.in.run.hook.failed != nil {
		t.Fatalf("29s after %v in the queue: %v", queued, b.in.Reason())
	}
	b.kernel.Mix = hosttest.FaultMix{}
	hook().End(pidfd.Exit{Known: true})
	b.v.RunFor(time.Second)
	b.want("spawning running", "")
	b.finish()
}

// TestEndOfLoggerInput: a logger that does not start again gets the end of its input instead of the
// stop signal. One that does keeps its input.
func TestEndOfLoggerInput(t *testing.T) {
	for _, last := range []bool{false, true} {
		b := runningBench(t, func(p *config.Program) { p.LoggerOf = "db" })
		fd := b.v.NewFD()
		b.in.Output.Reattach(paths.LoggerInput, fd, b.StoreFD(fd, false))
		main := b.main()
		b.phase.Ending = last
		b.stop()
		b.v.RunFor(9 * time.Second)
		saved := b.records[snapshot.InstanceKey("web")].(*snapshot.Instance)
		if open := b.in.Output.Input(b.in.Program).ReadFD == fd; open == last || saved.Input == last || main.Zombie == last {
			t.Errorf("last %v: input open %v, recorded %v, ended by the stop signal %v",
				last, open, saved.Input, main.Zombie)
		}
		main.End(pidfd.Exit{Known: true})
		b.v.RunFor(time.Minute)
		b.in.Output.CloseInput()
		b.close()
	}
}

// TestStopCommandWithoutDeadline: a successor gives a stop_command the whole stop time-out if the
// record of its predecessor is from before that began.
func TestStopCommandWithoutDeadline(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.StopCommand = besideCommand })
	b.kernel.Mix.HookHangs = 1
	b.stop()
	b.v.RunFor(time.Second)
	saved := b.records[snapshot.InstanceKey("web")].(*snapshot.Instance)
	saved.Run.StopDeadline, saved.Run.StopLimit = 0, 0
	b.succeed()
	b.v.RunFor(9 * time.Second)
	if b.in.run == nil || b.in.run.beside.StopState() != snapshot.StopCommandRuns {
		t.Errorf("after 9s: %v, want it to wait for stop_command: %s", b.in.Machine.State(), b.in.Reason())
	}
	b.v.RunFor(time.Minute)
	b.close()
}

// TestKillSignalOfARun: a definition that comes after the kill signal changes nothing about that,
// neither for a successor nor in a hurry.
func TestKillSignalOfARun(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		b := runningBench(t, func(p *config.Program) { p.KillSignal = unix.SIGQUIT })
		b.kernel.AllowKill(b.in.Program)
		main := b.main()
		main.IgnoresStop, main.Unkillable = true, true
		b.stop()
		b.v.RunFor(10*time.Second + host.KillPause/2)
		b.redefine(func(p *config.Program) { p.KillSignal, p.NoFinalKill = 0, true })
		b.kernel.AllowKill(b.in.Program)
		if restarted {
			b.succeed()
		}
		b.v.RunFor(host.KillPause)
		const want = "process 2 survives SIGQUIT: state D (disk sleep)"
		if !slices.Equal(b.unkillable, []string{want}) {
			t.Errorf("restarted %v: unkillable %q, want %q", restarted, b.unkillable, want)
		}
		b.redefine(func(p *config.Program) { p.NoFinalKill = false })
		b.kernel.AllowKill(b.in.Program)
		b.phase.Hurry = true
		b.in.Hurry()
		if sig := syscall.Signal(b.in.run.main.killing); sig != unix.SIGKILL {
			t.Errorf("restarted %v: in a hurry it gets %v, want SIGKILL", restarted, sig)
		}
		b.v.RunFor(time.Hour)
		b.close()
	}
}
