package procs

import (
	"syscall"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/notify"
)

// checkMain checks that superd has the main process that the program has announced.
func (h *history) checkMain(in instanceView) {
	if !in.Run().HasProcess() {
		return
	}
	has := simProcessOf(in.Run().Process())
	if has != nil && in.state() == fsm.Running && has.IsCommand() {
		h.fail("%s is running, and its main process is its command %d, which goes into the background", in.name(), has.Pid)
	}
	// It is the main process
	if has == nil || has.Role == hosttest.RoleMain && has.Run == in.Run().ID() {
		return
	}
	want := h.kernel.Main(in.Run().ID())
	if want == nil || want.IsCommand() && want.Zombie {
		return // a pid file may name any process of the program
	}
	if has != want {
		h.fail("the main process of %s is %d of %s, superd has %d of %s", in.name(), want.Pid, want.Instance, has.Pid, has.Instance)
	}
}

// newRunning returns a history without faults in which the program was started a second ago.
func newRunning(program *config.Program, keeper bool) (*history, instanceView) {
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.kernel.Keeper = hosttest.FaultMix{}, keeper
	h.file = &config.Config{Programs: []*config.Program{program}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(time.Second)
	return h, inspect(h.sup).instance(program.Name)
}

// TestMainProcessChangesDuringStop: a process that becomes the main process during the stop gets
// the signal that its predecessor got.
func TestMainProcessChangesDuringStop(t *testing.T) {
	for _, state := range []fsm.State{fsm.Stopping, fsm.Killing} {
		t.Run(state.Name(), func(t *testing.T) {
			web := programNamed("web", nil)
			web.Watchdog, web.KillMode, web.StopTimeout = time.Hour, config.KillProcess, time.Minute
			h, in := newRunning(web, false)
			h.kernel.AllowKillMode("web", config.KillProcess)
			if in.state() != fsm.Running {
				t.Fatalf("web is %v", in.state())
			}
			main := h.kernel.Main(in.Run().ID())
			main.IgnoresStop, main.Unkillable = true, true
			if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
				t.Fatal(err)
			}
			if state == fsm.Killing {
				h.v.RunFor(web.StopTimeout + time.Second)
			}
			if in.state() != state {
				t.Fatalf("web is %s, want it %s", in.state().Name(), state.Name())
			}
			successor := main.ForkSuccessor()
			main.Notify(notify.Message{MainPID: successor.Pid})
			h.v.RunFor(10 * time.Second) // the exit status can't be known
			want := syscall.SIGTERM
			if state == fsm.Killing {
				want = syscall.SIGKILL
			}
			if in.state() != fsm.Stopped || successor.Exit.Signal != want || h.err != nil {
				t.Errorf("web is %s, its main process ended with %v, %v; want it stopped, by %v", in.state().Name(), successor.Exit, h.err, want)
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
	first := h.kernel.Main(in.Run().ID())
	second := first.ForkSuccessor()
	first.Notify(notify.Message{MainPID: second.Pid})
	h.v.RunFor(time.Second)
	third := second.ForkSuccessor()
	second.Notify(notify.Message{MainPID: third.Pid})
	second.End(pidfd.Exit{Known: true})
	h.kernel.ReapForeign(second)
	third.Renumber(second.Pid)
	// Here, so that superd does not read it earlier
	h.kernel.SocketOf(first.Run).Messages = []notify.Message{{MainPID: third.Pid}}
	h.v.RunFor(time.Minute)
	if in.state() != fsm.Running || simProcessOf(in.Run().Process()) != third || h.err != nil {
		t.Errorf("web is %s, %v; want it running, with its third process", in.state().Name(), h.err)
	}
}

// TestWatchdogOfNewMainProcess: a process that becomes the main process while superd waits for the
// exit status of the previous one must ping the watchdog, though the time-out of the previous one
// has passed.
func TestWatchdogOfNewMainProcess(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog = 300 * time.Millisecond
	h, in := newRunning(web, true) // true, as the keeper could report the exit
	first := h.kernel.Main(in.Run().ID())
	second := first.ForkSuccessor()
	first.Notify(notify.Message{MainPID: second.Pid})
	h.v.RunFor(20 * time.Millisecond)
	run := in.Run()
	third := second.ForkSuccessor()
	third.Unhealthy = true
	second.End(pidfd.Exit{Known: true})
	h.kernel.ReapForeign(second)
	h.v.RunFor(web.Watchdog + 50*time.Millisecond)
	if in.Run() != run || !run.MainEnded() {
		t.Fatalf("web is %s, want the exit of its main process noticed", in.state().Name())
	}
	second.Notify(notify.Message{MainPID: third.Pid})
	h.v.RunFor(time.Minute)
	if in.Run() == run {
		t.Errorf("web is %s, with process %d: its watchdog time-out was missed", in.state().Name(), in.Run().Process().Pid())
	}
}

// TestExitedProcessIsNotReportedUnkillable: a main process that SIGKILL has ended is not reported
// as unkillable, though its messages stay unread while the journal can't be written.
func TestExitedProcessIsNotReportedUnkillable(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog, web.StopTimeout = time.Hour, 0
	h, in := newRunning(web, false)
	main := h.kernel.Main(in.Run().ID())
	main.IgnoresStop = true
	h.kernel.OnWaitsIn = func(instance string) { t.Errorf("%s is reported as unkillable", instance) }
	h.journal.stalled = true
	main.Notify(notify.Message{MainPID: main.Pid})
	h.v.RunFor(time.Millisecond)
	if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(2 * instance.NotifyDrainLimit)
	if in.state() != fsm.Stopped || h.err != nil {
		t.Errorf("web is %s, %v; want it stopped", in.state().Name(), h.err)
	}
}

// TestUnwatchedProcessIsReportedUnkillable: a main process that can't be watched and survives
// SIGKILL is reported as unkillable, though its messages stay unread while the journal can't be
// written.
func TestUnwatchedProcessIsReportedUnkillable(t *testing.T) {
	web := programNamed("web", nil)
	web.Watchdog, web.StopTimeout = time.Hour, 0
	h := newHistory(1, defect{}, false)
	h.kernel.Mix = hosttest.FaultMix{WatchFails: 1}
	h.file = &config.Config{Programs: []*config.Program{web}}
	h.sup = New(h.options())
	h.sup.Start(func() {})
	h.v.RunFor(500 * time.Millisecond) // less than the time until superd first polls it
	in := inspect(h.sup).instance("web")
	main := h.kernel.Main(in.Run().ID())
	main.IgnoresStop, main.Unkillable = true, true
	h.journal.stalled = true
	main.Notify(notify.Message{MainPID: main.Pid})
	if _, err := h.sup.Command(OpStop, []string{"web"}, false, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(host.KillPause + time.Second)
	if in.unkillable() == "" || h.err != nil {
		t.Errorf("web is %s, unkillable %q, %v; want it reported", in.state().Name(), in.unkillable(), h.err)
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
	first, run := h.kernel.Main(in.Run().ID()), in.Run()
	second := first.ForkSuccessor()
	resume := h.journal.stall()
	// Not dropped before it is saved; those after it stay unread
	first.Notify(notify.Message{MainPID: first.Pid})
	first.Notify(notify.Message{MainPID: second.Pid})
	first.End(pidfd.Exit{Known: true})
	h.v.RunFor(10 * time.Millisecond)
	run.FailCheck("connection refused")
	resume()
	h.v.RunFor(time.Second)
	if in.state() != fsm.Running || in.Run() != run || simProcessOf(run.Process()) != second {
		t.Errorf("web is %s: %s; want it running, with its second process", in.state().Name(), in.reason())
	}
}
