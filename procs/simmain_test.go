package procs

import (
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/notify"
	"superd/procs/probe"
)

// A simService is the service of a program. A main process shares it with a child to which it hands
// over.
type simService struct {
	began          time.Duration // when the loop learned of it
	readyAt        time.Duration // when it became ready; 0 before
	unhealthy      bool
	unhealthySince time.Duration
	// Whether it reloads its configuration, has reported that, and fails all checks
	busy     bool
	busyAt   time.Duration
	watchdog time.Duration // time-out for its pings; 0: none
	pingedAt time.Duration // when it last sent a ping
}

// scheduleHandover makes a main process hand over to a child, which it may announce by MAINPID=, at
// times with a wrong pid.
func (p *simProcess) scheduleHandover() {
	k := p.k
	if !p.notifies || !k.chance(k.mix.handover) {
		return
	}
	p.scope.After(k.upTo(time.Duration(k.pick(0.001, 1, 60)*float64(time.Second))), func() {
		if p.dying {
			return
		}
		successor := p.forkSuccessor()
		pid := successor.pid
		if k.chance(0.2) {
			pid = 2 + k.rng.IntN(10)
		}
		successor.becomeReady()
		successor.ping()
		successor.scheduleHandover()
		sender := p
		if k.chance(0.5) {
			sender = successor
		}
		sender.scope.After(k.upTo(time.Duration(k.pick(0, 1)*float64(time.Second))), func() {
			if sender.dying {
				return
			}
			k.logf("%s (%d) sends MAINPID=%d", p.instance, sender.pid, pid)
			p.notify(notify.Message{MainPID: pid})
			if k.chance(0.7) {
				p.scope.After(k.upTo(time.Second), func() { p.end(pidfd.Exit{Known: true}) })
			}
		})
	})
}

// forkSuccessor returns a child that continues the service of the process.
func (p *simProcess) forkSuccessor() *simProcess {
	successor := p.k.registerSpawned(p.instance, p.run, roleSuccessor)
	successor.simService, successor.parent, successor.reparented, successor.notifies, successor.isSuccessor = p.simService, p, true, true, true
	p.children = append(p.children, successor)
	successor.endScheduledRun(p.k.definitions[p.run])
	return successor
}

// endScheduledRun ends a process of a scheduled program after a random time.
func (p *simProcess) endScheduledRun(definition *config.Program) {
	if k := p.k; definition != nil && definition.Schedule != "" && k.mix.runTime > 0 {
		p.scope.After(k.upTo(k.mix.runTime), func() { p.end(pidfd.Exit{Known: true}) })
	}
}

// serves reports whether the process provides the service of its program: as main process, or as
// its successor before or after the handover. A successor of an earlier run does not: it may share
// its address with the next run, whose checks would then pass before that run is ready.
func (p *simProcess) serves() bool {
	if p.role != roleSuccessor {
		return p.role == roleMain
	}
	main := p.k.mains[p.run]
	return main != nil && main.simService == p.simService && !main.finished()
}

// mainAnnounced is called when superd reads MAINPID=. It makes the process the expected main
// process if it belongs to the program.
func (k *simKernel) mainAnnounced(run string, pid int) {
	main, p := k.mains[run], k.byPid[pid]
	if main != nil && p != nil && p.instance == main.instance {
		k.setMain(run, p)
	}
}

// setMain sets the main process of the run. The previous one becomes an ordinary process of the
// tree.
func (k *simKernel) setMain(run string, p *simProcess) {
	before := k.mains[run]
	if before == p {
		return
	}
	if before != nil {
		before.setRole(roleEscaped)
		p.simService = before.simService
	}
	p.setRole(roleMain)
	// p may be a leftover process of another run
	k.mains[run], p.run, p.mainAt = p, run, k.v.Now()
}

// setRole changes the role of a process.
func (p *simProcess) setRole(role simRole) {
	if p.zombie {
		p.role = role
		return
	}
	p.k.count(p, -1)
	p.role = role
	p.k.count(p, 1)
}

// orphanChildren gives the children of a process that has ended the parent of that process.
func (p *simProcess) orphanChildren() {
	for _, child := range p.children {
		if !child.zombie {
			child.parent, child.reparented = nil, p.reparented
		}
	}
}

// checkMain checks that superd has the main process that the program has announced.
func (h *history) checkMain(in *instance) {
	if in.run == nil || in.run.process == nil {
		return
	}
	has := simProcessOf(in.run.process)
	// It is the main process
	if has == nil || has.role == roleMain && has.run == in.run.invocationID {
		return
	}
	if want := h.kernel.mains[in.run.invocationID]; want != nil && has != want {
		h.fail("the main process of %s is %d of %s, superd has %d of %s", in.name, want.pid, want.instance, has.pid, has.instance)
	}
}

// newRunning returns a history without faults in which the program was started a second ago.
func newRunning(program *config.Program, keeper bool) (*history, *instance) {
	h := newHistory(1, defect{}, false)
	h.kernel.mix, h.kernel.keeper = faultMix{}, keeper
	h.file = &config.Config{Programs: []*config.Program{program}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(time.Second)
	return h, h.sup.registry.byName[program.Name]
}

// TestMainProcessChangesDuringStop: a process that becomes the main process during the stop gets
// the signal that its predecessor got.
func TestMainProcessChangesDuringStop(t *testing.T) {
	for _, state := range []fsm.State{fsm.Stopping, fsm.Killing} {
		t.Run(state.Name(), func(t *testing.T) {
			web := programNamed("web", nil)
			web.Watchdog, web.KillMode, web.StopTimeout = time.Hour, config.KillProcess, time.Minute
			h, in := newRunning(web, false)
			h.kernel.spared["web"] = true
			if in.machine.State() != fsm.Running {
				t.Fatalf("web is %v", in.machine.State())
			}
			main := h.kernel.mains[in.run.invocationID]
			main.ignoresStop, main.unkillable = true, true
			if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
				t.Fatal(err)
			}
			if state == fsm.Killing {
				h.v.RunFor(web.StopTimeout + time.Second)
			}
			if in.machine.State() != state {
				t.Fatalf("web is %s, want it %s", in.machine.State().Name(), state.Name())
			}
			successor := main.forkSuccessor()
			main.notify(notify.Message{MainPID: successor.pid})
			h.v.RunFor(10 * time.Second) // the exit status can't be known
			want := syscall.SIGTERM
			if state == fsm.Killing {
				want = syscall.SIGKILL
			}
			if in.machine.State() != fsm.Stopped || successor.exit.Signal != want || h.err != nil {
				t.Errorf("web is %s, its main process ended with %v, %v; want it stopped, by %v", in.machine.State().Name(), successor.exit, h.err, want)
			}
		})
	}
}

// TestNewMainProcessReusesPid: the main process, no child of superd, has ended and was reaped; its
// child reuses the pid and becomes the main process.
func TestNewMainProcessReusesPid(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = time.Hour
	h, in := newRunning(web, false)
	first := h.kernel.mains[in.run.invocationID]
	second := first.forkSuccessor()
	first.notify(notify.Message{MainPID: second.pid})
	h.v.RunFor(time.Second)
	third := second.forkSuccessor()
	second.notify(notify.Message{MainPID: third.pid})
	second.end(pidfd.Exit{Known: true})
	h.kernel.reapForeign(second)
	delete(h.kernel.byPid, third.pid)
	third.pid = second.pid
	h.kernel.byPid[third.pid] = third
	// Here, so that superd does not read it earlier
	h.kernel.socketOf(first.run).messages = []notify.Message{{MainPID: third.pid}}
	h.v.RunFor(time.Minute)
	if in.machine.State() != fsm.Running || simProcessOf(in.run.process) != third || h.err != nil {
		t.Errorf("web is %s, %v; want it running, with its third process", in.machine.State().Name(), h.err)
	}
}

// TestWatchdogOfNewMainProcess: a process that becomes the main process while superd waits for the
// exit status of the previous one must ping the watchdog, though the time-out of the previous one
// has passed.
func TestWatchdogOfNewMainProcess(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = 300 * time.Millisecond
	h, in := newRunning(web, true) // true, as the keeper could report the exit
	first := h.kernel.mains[in.run.invocationID]
	second := first.forkSuccessor()
	first.notify(notify.Message{MainPID: second.pid})
	h.v.RunFor(20 * time.Millisecond)
	run := in.run
	third := second.forkSuccessor()
	third.unhealthy = true
	second.end(pidfd.Exit{Known: true})
	h.kernel.reapForeign(second)
	h.v.RunFor(web.Watchdog + 50*time.Millisecond)
	if in.run != run || !run.mainEnded() {
		t.Fatalf("web is %s, want the exit of its main process noticed", in.machine.State().Name())
	}
	second.notify(notify.Message{MainPID: third.pid})
	h.v.RunFor(time.Minute)
	if in.run == run {
		t.Errorf("web is %s, with process %d: its watchdog time-out was missed", in.machine.State().Name(), in.run.process.Pid())
	}
}

// TestExitedProcessIsNotReportedUnkillable: a main process that SIGKILL has ended is not reported
// as unkillable, though its messages stay unread while the journal can't be written.
func TestExitedProcessIsNotReportedUnkillable(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog, web.StopTimeout = time.Hour, 0
	h, in := newRunning(web, false)
	main := h.kernel.mains[in.run.invocationID]
	main.ignoresStop = true
	h.kernel.onWaitsIn = func(instance string) { t.Errorf("%s is reported as unkillable", instance) }
	h.journal.stalled = true
	main.notify(notify.Message{MainPID: main.pid})
	h.v.RunFor(time.Millisecond)
	if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(2 * notifyDrainLimit)
	if in.machine.State() != fsm.Stopped || h.err != nil {
		t.Errorf("web is %s, %v; want it stopped", in.machine.State().Name(), h.err)
	}
}

// TestUnwatchedProcessIsReportedUnkillable: a main process that can't be watched and survives
// SIGKILL is reported as unkillable, though its messages stay unread while the journal can't be
// written.
func TestUnwatchedProcessIsReportedUnkillable(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog, web.StopTimeout = time.Hour, 0
	h := newHistory(1, defect{}, false)
	h.kernel.mix = faultMix{watchFails: 1}
	h.file = &config.Config{Programs: []*config.Program{web}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(500 * time.Millisecond) // less than the time until superd first polls it
	in := h.sup.registry.byName["web"]
	main := h.kernel.mains[in.run.invocationID]
	main.ignoresStop, main.unkillable = true, true
	h.journal.stalled = true
	main.notify(notify.Message{MainPID: main.pid})
	if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(host.KillPause + time.Second)
	if in.unkillable == "" || h.err != nil {
		t.Errorf("web is %s, unkillable %q, %v; want it reported", in.machine.State().Name(), in.unkillable, h.err)
	}
}

// TestCheckBetweenMainProcesses: a check that failed after the end of the main process does not
// count for the process that the program had announced before, though superd reads that message
// later.
func TestCheckBetweenMainProcesses(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = time.Hour
	web.Health = &config.Health{TCP: "web", Interval: time.Hour, Timeout: time.Second, Failures: 1, Action: config.HealthRestart}
	h, in := newRunning(web, false)
	first, run := h.kernel.mains[in.run.invocationID], in.run
	second := first.forkSuccessor()
	resume := h.journal.stall()
	// Not dropped before it is saved; those after it stay unread
	first.notify(notify.Message{MainPID: first.pid})
	first.notify(notify.Message{MainPID: second.pid})
	first.end(pidfd.Exit{Known: true})
	h.v.RunFor(10 * time.Millisecond)
	run.monitor.onResult(probe.Result{Outcome: probe.Failed, Reason: "connection refused", At: h.v.Now()})
	resume()
	h.v.RunFor(time.Second)
	if in.machine.State() != fsm.Running || in.run != run || simProcessOf(run.process) != second {
		t.Errorf("web is %s: %s; want it running, with its second process", in.machine.State().Name(), in.reason())
	}
}
