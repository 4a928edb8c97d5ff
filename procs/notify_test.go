package procs

import (
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/instance"
	"superd/procs/notify"
)

// stall blocks writes to the journal until the caller calls end.
func (j *simJournal) stall() (end func()) {
	j.stalled = true
	return func() {
		j.stalled = false
		j.write()
	}
}

// TestJournalStalls: while the journal can't be written, a message is not dropped, and those after
// it stay unread. That alone must not end a program that has notified in time.
func TestJournalStalls(t *testing.T) {
	world := func(t *testing.T, neverReady float64, change func(*config.Program)) (*history, instanceView, *hosttest.Process, func()) {
		h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
			p.Ready = &config.Ready{Notify: true}
			p.Restart = config.RestartNever
			p.StartTimeout, p.StopTimeout = 30*time.Second, 10*time.Second
			p.Autostart = false
			change(p)
		})}})
		h.kernel.Mix.NeverReady = neverReady
		h.mustCommand(t, OpStart, "web")
		h.v.RunFor(time.Second)
		return h, inspect(h.sup).instance("web"), h.mainOf("web"), h.journal.stall()
	}
	t.Run("the watchdog", func(t *testing.T) {
		h, in, p, resume := world(t, 0, func(p *config.Program) { p.Watchdog = time.Minute })
		p.Notify(notify.Message{Reloading: true})
		h.v.RunFor(10 * time.Minute)
		resume()
		h.v.RunFor(10 * time.Minute)
		if in.state() != fsm.Running || h.mainOf("web") != p {
			t.Fatalf("%v: %s, want running", in.state(), in.reason())
		}
		resume = h.journal.stall()
		p.Unhealthy = true
		p.Notify(notify.Message{Reloading: true})
		h.v.RunFor(10 * time.Minute)
		resume()
		h.v.RunFor(2 * time.Minute)
		if in.state() != fsm.Failed {
			t.Errorf("%v: %s, want failed: it sent nothing", in.state(), in.reason())
		}
	})
	t.Run("the start time-out", func(t *testing.T) {
		h, in, p, resume := world(t, 1, func(*config.Program) {})
		p.Notify(notify.Message{ExtendTimeout: time.Second})
		p.Notify(notify.Message{Ready: true})
		h.v.RunFor(10 * time.Minute)
		resume()
		h.v.RunFor(time.Second)
		if in.state() != fsm.Running {
			t.Errorf("%v: %s, want running", in.state(), in.reason())
		}
	})
	t.Run("the start time-out of a program that sends nothing", func(t *testing.T) {
		h, in, p, resume := world(t, 1, func(*config.Program) {})
		p.Notify(notify.Message{ExtendTimeout: time.Second})
		h.v.RunFor(10 * time.Minute)
		resume()
		h.v.RunFor(time.Minute)
		if in.state() != fsm.Failed {
			t.Errorf("%v: %s, want failed", in.state(), in.reason())
		}
	})
	t.Run("a failed check", func(t *testing.T) {
		h, in, p, resume := world(t, 0, func(p *config.Program) {
			p.Health = &config.Health{TCP: "web", Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 1, Action: config.HealthRestart}
			p.StartTimeout = time.Hour
		})
		wantRunning := func(what string) {
			t.Helper()
			if in.state() != fsm.Running || h.mainOf("web") != p {
				t.Fatalf("%s, %v: %s, want running", what, in.state(), in.reason())
			}
		}
		p.Notify(notify.Message{ExtendTimeout: time.Second}) // not dropped before it is saved
		p.Notify(notify.Message{Reloading: true})
		p.Busy = true
		h.v.RunFor(time.Minute)
		wantRunning("during its reload")
		resume()
		h.v.RunFor(time.Second)
		for h.kernel.ChecksUnderWay() == 0 && h.v.Step() {
		}
		p.Notify(notify.Message{Ready: true})
		h.v.RunFor(200 * time.Millisecond) // the check fails
		p.Busy = false
		wantRunning("after its reload, with a failed check that began before")
		h.v.RunFor(time.Minute)
		wantRunning("healthy again")
		p.Unhealthy = true
		h.v.RunFor(time.Minute)
		if in.state() != fsm.Failed {
			t.Errorf("%v: %s, want failed: it is unhealthy", in.state(), in.reason())
		}
	})
	for name, late := range map[string]time.Duration{"the exit of the main process": time.Second, "its exit, for too long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			h, in, p, resume := world(t, 0, func(*config.Program) {})
			p.Notify(notify.Message{Reloading: true})
			child := h.kernel.NewProcess("web", p.Run, hosttest.RoleEscaped)
			p.Notify(notify.Message{MainPID: child.Pid})
			if late < instance.NotifyDrainLimit {
				p.Role = hosttest.RoleEscaped // another process becomes the main one
			}
			turns := h.v.Turns()
			p.End(exitZero)
			h.v.RunFor(late)
			if turns = h.v.Turns() - turns; turns > 100 {
				t.Errorf("%d turns of the loop in %v", turns, late)
			}
			resume()
			h.v.RunFor(time.Minute)
			if taken := in.state() == fsm.Running && in.Run().Process().Pid() == child.Pid; taken != (late < instance.NotifyDrainLimit) {
				t.Errorf("%v: %s, the new main process taken: %v", in.state(), in.reason(), taken)
			}
			if len(h.kernel.Zombies()) > 0 {
				t.Errorf("%d zombies are left", len(h.kernel.Zombies()))
			}
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}

// TestQueuedChecksDoNotCount: a check that waits in the queue has no result.
func TestQueuedChecksDoNotCount(t *testing.T) {
	world := func(change func(*config.Program)) (*history, instanceView) {
		h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
			p.Restart = config.RestartNever
			p.StartTimeout, p.StopTimeout = 10*time.Second, 10*time.Second
			change(p)
		})}})
		return h, inspect(h.sup).instance("web")
	}
	t.Run("health", func(t *testing.T) {
		h, in := world(func(p *config.Program) {
			p.Health = &config.Health{Exec: []string{hosttest.ProbeCommand}, Interval: 10 * time.Second, Timeout: time.Second, Failures: 2, Action: config.HealthRestart}
		})
		h.kernel.Mix.SpawnHangs, h.kernel.QueuesHung = 1, true
		h.v.RunFor(time.Hour)
		if in.state() != fsm.Running {
			t.Fatalf("%v: %s, want running", in.state(), in.reason())
		}
		h.kernel.QueuesHung = false
		h.v.RunFor(time.Hour)
		if in.state() != fsm.Failed {
			t.Errorf("%v: %s, want failed: its checks hang", in.state(), in.reason())
		}
	})
	t.Run("readiness", func(t *testing.T) {
		h, in := world(func(p *config.Program) {
			p.Autostart = false
			p.Ready = &config.Ready{Exec: []string{hosttest.ProbeCommand}, Interval: time.Second, Timeout: time.Second}
		})
		h.kernel.Mix.SlowReady = time.Minute
		h.mustCommand(t, OpStart, "web")
		h.v.RunFor(time.Millisecond)
		h.kernel.Mix.SpawnHangs, h.kernel.QueuesHung = 1, true
		h.v.RunFor(time.Hour)
		if in.state() != fsm.Starting {
			t.Fatalf("%v: %s, want starting", in.state(), in.reason())
		}
		h.kernel.Mix.SpawnHangs = 0
		h.v.RunFor(time.Minute)
		if in.state() != fsm.Running {
			t.Errorf("%v: %s, want running", in.state(), in.reason())
		}
	})
}

// TestReadinessSurvivesKill: notifications survive a kill of superd. The time without a superd, or
// before superd knew of the process, does not count for time-outs.
func TestReadinessSurvivesKill(t *testing.T) {
	world := func(seed uint64, ready *config.Ready) *history {
		conf := &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
			p.Ready = ready
			p.Restart, p.Autostart = config.RestartNever, false
			p.StartTimeout, p.StopTimeout = 10*time.Second, 10*time.Second
		})}}
		h, _ := newFaultFree(seed, conf)
		h.file, h.kernel.Keeper = conf, true
		h.crash() // the successor has a keeper
		h.models["web"].wantUp = true
		return h
	}
	wantReady := func(t *testing.T, h *history, p *hosttest.Process) {
		t.Helper()
		h.v.RunFor(time.Minute)
		if in := inspect(h.sup).instance("web"); in.state() != fsm.Running || simProcessOf(in.Run().Process()) != p {
			t.Errorf("%v: %s, want running as before", in.state(), in.reason())
		}
		if h.err != nil {
			t.Error(h.err)
		}
	}
	t.Run("READY=1 after a stop that is not written", func(t *testing.T) {
		h := world(1, &config.Ready{Notify: true, Timeout: 2 * time.Second})
		h.kernel.Mix.NeverReady = 1
		h.mustCommand(t, OpStart, "web")
		h.v.RunFor(time.Second)
		p := h.mainOf("web")
		p.IgnoresStop = true
		h.journal.stall()
		h.mustCommand(t, OpRestart, "web")
		p.ReadyAt = h.v.Now()
		p.Notify(notify.Message{Ready: true})
		h.v.RunFor(time.Second)
		h.crash()
		wantReady(t, h, p)
	})
	t.Run("a line, before superd knows of the process", func(t *testing.T) {
		for seed := range uint64(20) { // the time-out may be handled before the line
			h := world(seed, &config.Ready{FD: 3, Timeout: 2 * time.Second})
			h.kernel.Mix.NoResult = true
			h.mustCommand(t, OpStart, "web")
			h.v.RunFor(30 * time.Second)
			p := h.kernel.Process(2)
			h.crash()
			wantReady(t, h, p)
		}
	})
}
