package instance

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
	"superd/procs/instance/beside"
	"superd/procs/notify"
)

// runningBench returns a bench whose instance runs.
func runningBench(t *testing.T, change func(*config.Program)) *bench {
	program := testProgram()
	change(program)
	b := newBench(t, hosttest.FaultMix{}, program)
	b.start()
	b.v.RunFor(time.Second)
	return b
}

// reload requests a reload and returns where its outcomes appear.
func (b *bench) reload() *[]beside.Outcome {
	got := new([]beside.Outcome)
	b.in.Reload(func(o beside.Outcome) { *got = append(*got, o) })
	return got
}

// wantOutcome checks that there is one outcome, whose text begins with the given one.
func (b *bench) wantOutcome(got *[]beside.Outcome, ok bool, says string) {
	b.t.Helper()
	if len(*got) != 1 || (*got)[0].OK != ok || !strings.HasPrefix((*got)[0].Message, says) {
		b.t.Errorf("outcomes %v, want one: %v %q", *got, ok, says)
	}
}

// finish stops the instance and removes it.
func (b *bench) finish() {
	b.stop()
	if b.in.Machine.State() == fsm.StopPending {
		b.in.Apply(b.in.Machine.StopNow())
	}
	b.v.RunFor(time.Hour)
	b.close()
}

// confirmsReloads is a program that confirms its reloads.
func confirmsReloads(p *config.Program) {
	p.ReloadSignal, p.ReloadNotify, p.Ready = 1, true, &config.Ready{Notify: true}
}

// A deafProcess can't be signalled.
type deafProcess struct{ host.Process }

func (deafProcess) Signal(syscall.Signal) error { return unix.EPERM }

// TestReloadSignalFails: a reload whose signal can't be sent has failed.
func TestReloadSignalFails(t *testing.T) {
	b := runningBench(t, confirmsReloads)
	process := b.in.run.main.process
	b.in.run.main.process = deafProcess{process}
	got := b.reload()
	b.v.RunFor(time.Second)
	b.in.run.main.process = process
	b.wantOutcome(got, false, "not reloaded: SIGHUP not sent to process 2: operation not permitted")
	b.finish()
}

// TestReloadIsAnsweredAtRemoval: requests are answered if the instance is removed in the turn in
// which the reload or the check ends.
func TestReloadIsAnsweredAtRemoval(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.ReloadCommand, p.CheckCommand = besideCommand, besideCommand })
	b.kernel.Mix.HookHangs = 1
	first, second := b.reload(), b.reload()
	checks := 0
	CheckConfiguration(b.in, func(beside.Outcome) { checks++ })
	b.v.RunFor(time.Second)
	b.in.run.beside.Leave(fsm.Stopped)
	b.in.Scope.Close()
	b.v.RunFor(time.Second)
	b.wantOutcome(first, false, "not reloaded: ")
	b.wantOutcome(second, false, "not reloaded: ")
	if checks != 1 {
		t.Errorf("the check has %d answers, want 1", checks)
	}
}

// TestNextReloadAtRemoval: a request that came during a reload is answered if the instance is
// removed when that ends.
func TestNextReloadAtRemoval(t *testing.T) {
	b := runningBench(t, confirmsReloads)
	first := new([]beside.Outcome)
	b.in.Reload(func(o beside.Outcome) {
		*first = append(*first, o)
		b.in.Scope.Close()
		b.in.run = nil
	})
	second := b.reload()
	send(notify.Message{Reloading: true})(b)
	b.v.RunFor(time.Second)
	send(notify.Message{Ready: true})(b)
	b.v.RunFor(time.Second)
	b.wantOutcome(first, true, "reloaded")
	b.wantOutcome(second, false, "not reloaded: ")
}

// TestStopEndsCheck: a check before a restart does not delay the stop_command of a stop.
func TestStopEndsCheck(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.CheckCommand, p.StopCommand = besideCommand, besideStops })
	b.kernel.Mix.HookHangs = 1
	answers := 0
	CheckConfiguration(b.in, func(beside.Outcome) { answers++ })
	b.v.RunFor(time.Second)
	b.kernel.Mix.HookHangs = 0
	b.stop()
	b.v.RunFor(5 * time.Second)
	b.want("spawning running stopping stopped", "")
	if !strings.Contains(b.in.Reason(), "ended by stop_command") || answers != 1 {
		t.Errorf("%q, %d answers; want the end by stop_command, and 1", b.in.Reason(), answers)
	}
	b.finish()
}

// TestLateStopCommand: a stop_command that has not begun when the program ends does not begin.
func TestLateStopCommand(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.StopCommand = besideCommand })
	b.kernel.Mix.CheckHangs = 1
	endCheck := (&execChecker{b.in.run, []string{hosttest.ProbeCommand}}).Check(func(error) {})
	b.v.RunFor(time.Second)
	started := b.kernel.Started()
	b.stop()
	b.v.RunFor(time.Second)
	exit(0)(b)
	b.v.RunFor(time.Second)
	endCheck()
	b.v.RunFor(time.Minute)
	if n := b.kernel.Started() - started; n > 0 || strings.Contains(b.in.Reason(), "stop_command") {
		t.Errorf("%d commands are started after the end: %s", n, b.in.Reason())
	}
	b.finish()
}

// TestReloadTimes: the times of a reload follow EXTEND_TIMEOUT_USEC and start_timeout, and a
// message that superd has not read yet counts.
func TestReloadTimes(t *testing.T) {
	tests := []struct {
		name string
		act  func(*bench) // just after the signal
		ok   bool
		says string
	}{
		{"extended before RELOADING=1", func(b *bench) {
			send(notify.Message{ExtendTimeout: 50 * time.Second})(b)
			b.v.Root().After(45*time.Second, func() { send(notify.Message{Reloading: true})(b) })
			b.v.Root().After(50*time.Second, func() { send(notify.Message{Ready: true})(b) })
		}, true, "reloaded"},
		{"start_timeout becomes longer", func(b *bench) {
			b.redefine(func(p *config.Program) { p.StartTimeout = time.Minute })
			b.v.Root().After(45*time.Second, func() { send(notify.Message{Reloading: true})(b) })
			b.v.Root().After(50*time.Second, func() { send(notify.Message{Ready: true})(b) })
		}, true, "reloaded"},
		{"reload_signal is removed", func(b *bench) {
			b.redefine(func(p *config.Program) { p.ReloadSignal = 0 })
		}, false, "no RELOADING=1 within start_timeout 30s after SIGHUP"},
		{"RELOADING=1 is not read yet", func(b *bench) {
			b.v.Root().After(29*time.Second, func() { b.unread(notify.Message{Reloading: true}) })
			b.v.Root().After(31*time.Second, func() { send(notify.Message{Ready: true})(b) })
		}, true, "reloaded"},
		{"READY=1 is not read yet", func(b *bench) {
			b.v.Root().After(10*time.Second, func() { send(notify.Message{Reloading: true})(b) })
			b.v.Root().After(39*time.Second, func() { b.unread(notify.Message{Ready: true}) })
		}, true, "reloaded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := runningBench(t, confirmsReloads)
			got := b.reload()
			b.v.RunFor(time.Millisecond)
			tt.act(b)
			b.v.RunFor(3 * time.Minute)
			b.wantOutcome(got, tt.ok, tt.says)
			b.finish()
		})
	}
}

// unread adds a message of the main process to the socket, which superd does not read by itself.
func (b *bench) unread(m notify.Message) {
	s := b.kernel.SocketOf(b.in.run.invocationID)
	s.Messages = append(s.Messages, m)
}

// TestReloadOutlivesSuperd: a reload of which RELOADING=1 has come ends after a crash of superd,
// too, also if the program must stop once its dependents are down.
func TestReloadOutlivesSuperd(t *testing.T) {
	tests := []struct {
		name    string
		stops   bool
		expired bool // its time was over, and superd had not read the socket
	}{
		{"it runs", false, false},
		{"it must stop", true, false},
		{"its time is over", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := runningBench(t, confirmsReloads)
			b.reload()
			b.v.RunFor(time.Second)
			send(notify.Message{Reloading: true})(b)
			if tt.stops {
				b.in.Apply(b.in.Machine.WantDown(fsm.By(fsm.ActorOperator), fsm.Conditions{HasDependents: true}))
			}
			b.v.RunFor(time.Second)
			if tt.expired {
				b.in.run.reloadTimer.Stop()
				b.in.Save()
			}
			b.succeed()
			if got := b.in.run.beside.Stage(); got != "reload: waits for READY=1" {
				t.Fatalf("stage %q after the crash; want a reload that is confirmed", got)
			}
			b.v.RunFor(time.Minute)
			if b.in.run.beside.Stage() != "" {
				t.Error("the reload does not end")
			}
			b.finish()
		})
	}
}

// TestReloadSignalAcrossCrash: a reload by signal whose outcome was not recorded is known to the
// successor, which can't know whether the signal was sent, and carries out a later request.
func TestReloadSignalAcrossCrash(t *testing.T) {
	for _, again := range []bool{false, true} {
		b := runningBench(t, func(p *config.Program) { p.ReloadSignal = 1 })
		b.reload()
		if again {
			b.reload()
		}
		b.succeed() // the signal is not sent yet
		says := "superd was restarted when it sent reload_signal"
		if last := b.in.LastReload; last == nil || last.OK || !strings.HasPrefix(last.Outcome, says) {
			t.Errorf("last reload %+v, want %q", last, says)
		}
		b.v.RunFor(time.Second)
		if b.in.LastReload.OK != again || b.in.Snapshot().Run.Beside != nil {
			t.Errorf("the other reload (%v) has ended by %+v", again, b.in.LastReload)
		}
		b.succeed()
		if b.in.LastReload == nil || b.in.LastReload.OK != again {
			t.Errorf("a successor has %+v as the last reload", b.in.LastReload)
		}
		b.finish()
	}
}

// TestReloadRedefined: the commands of a reload, and a check before a restart, get the time that a
// new start_timeout gives.
func TestReloadRedefined(t *testing.T) {
	b := runningBench(t, func(p *config.Program) { p.ReloadCommand, p.CheckCommand = besideCommand, besideCommand })
	b.kernel.Mix.HookHangs = 1
	reload, check := b.reload(), new([]beside.Outcome)
	b.v.RunFor(20 * time.Second)
	b.redefine(func(p *config.Program) { p.StartTimeout = time.Minute })
	b.v.RunFor(39 * time.Second)
	if len(*reload) > 0 {
		t.Errorf("outcome %v after 59s, start_timeout being 1m by now", *reload)
	}
	b.v.RunFor(2 * time.Second)
	b.wantOutcome(reload, false, "check_command /beside: still running after start_timeout 1m")
	CheckConfiguration(b.in, func(o beside.Outcome) { *check = append(*check, o) })
	b.v.RunFor(20 * time.Second)
	b.redefine(func(p *config.Program) { p.StartTimeout = 5 * time.Second })
	b.v.RunFor(time.Second)
	b.wantOutcome(check, false, "check_command /beside: still running after start_timeout 5s")
	b.finish()
}
