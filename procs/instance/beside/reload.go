package beside

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"superd/internal/signame"
	"superd/internal/words"
	"superd/loop"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/notify"
	"superd/procs/snapshot"
)

// A reload makes the program read its configuration again: check_command, then reload_signal or
// reload_command. A program that reports its reloads confirms one by RELOADING=1 and READY=1.
type reload struct {
	of      *Commands
	command *command // under way; nil without one
	// What a successor does: it begins again, reports a failure, or waits for the confirmation
	stage     snapshot.ReloadStage
	signal    syscall.Signal // that was sent; 0 if it is not known
	signalAt  time.Duration  // when it was sent
	confirmed bool           // RELOADING=1 came since then
	due       *loop.Timer    // ends the wait for that; nil before and after
	waiting   []func(Outcome)
	again     bool            // requests came since it began, which need another one
	next      []func(Outcome) // who waits for that
}

// An Outcome is how a reload of a program, or a check of its configuration, ended.
type Outcome struct {
	OK      bool
	Message string
	Output  []string // last lines of the command that failed
}

// String returns the outcome on one line.
func (o Outcome) String() string {
	if len(o.Output) == 0 {
		return o.Message
	}
	return o.Message + ": " + strings.Join(o.Output, "; ")
}

// noReload says that the program has no way to reload.
func (b *Commands) noReload() string {
	return fmt.Sprintf("it has no reload_signal and no reload_command: add one, or use `superd ctl restart %s`", b.Instance)
}

// Reload reloads the program, which runs. Each done is called once, perhaps before Reload returns.
func (b *Commands) Reload(done ...func(Outcome)) {
	switch p := b.Run.Program(); {
	case p.ReloadSignal == 0 && len(p.ReloadCommand) == 0:
		for _, answer := range done {
			answer(Outcome{Message: b.noReload()})
		}
	case b.reload != nil:
		l := b.reload
		l.again, l.next = true, append(l.next, done...)
		b.Run.Save()
	default:
		b.beginReload(done...)
	}
}

// CheckConfiguration runs check_command, if the program has one. done is called once, perhaps
// before CheckConfiguration returns.
func (b *Commands) CheckConfiguration(done func(Outcome)) {
	p := b.Run.Program()
	if len(p.CheckCommand) == 0 {
		done(Outcome{OK: true})
		return
	}
	c := b.newCommand("check_command", p.CheckCommand, "start_timeout", p.StartTimeout)
	k := &check{command: c, done: done}
	c.done = func(err error, output []string) {
		b.checks = slices.DeleteFunc(b.checks, func(other *check) bool { return other == k })
		if err != nil {
			done(Outcome{false, err.Error(), output})
			return
		}
		done(Outcome{OK: true})
	}
	b.checks = append(b.checks, k)
	c.start(true)
}

// A check is a check_command before a restart.
type check struct {
	command *command
	done    func(Outcome)
}

// dropChecks ends the checks of a run that does not go on: there is no restart to prevent. The
// instance may be gone when they are answered.
func (b *Commands) dropChecks() {
	for _, k := range b.checks {
		k.command.drop()
		b.Supervisor.Post(func() { k.done(Outcome{OK: true}) })
	}
	b.checks = nil
}

// beginReload begins a reload.
func (b *Commands) beginReload(waiting ...func(Outcome)) {
	p := b.Run.Program()
	l := &reload{of: b, waiting: waiting, stage: snapshot.ReloadCheck}
	b.reload = l
	b.Run.Changed()
	if len(p.CheckCommand) == 0 {
		l.act()
		return
	}
	l.execute("check_command", p.CheckCommand, l.act)
}

// execute runs a command of the reload, and then calls f if it has succeeded.
func (l *reload) execute(key string, words []string, f func()) {
	l.command = l.of.newCommand(key, words, "start_timeout", l.of.Run.Program().StartTimeout)
	l.command.done = func(err error, output []string) {
		if l.command = nil; err != nil {
			l.end(Outcome{false, err.Error(), output})
			return
		}
		f()
	}
	l.command.start(true)
}

// act reloads the program, whose configuration is checked.
func (l *reload) act() {
	b := l.of
	p := b.Run.Program()
	switch {
	case p.ReloadSignal != 0:
		l.stage = snapshot.ReloadSignal
		b.Run.Save()
		// A successor has to know that the signal may have been sent
		b.AfterSaving(func(error) {
			if !b.Scope.Closed() && b.reload == l {
				l.sendSignal()
			}
		})
	case len(p.ReloadCommand) == 0: // a reload of superd has removed it
		l.end(Outcome{Message: b.noReload()})
	default:
		l.stage = snapshot.ReloadCommand
		l.execute("reload_command", p.ReloadCommand, func() { l.end(Outcome{OK: true, Message: "reloaded"}) })
	}
}

// sendSignal sends reload_signal and, where the program reports its reloads, waits for that.
func (l *reload) sendSignal() {
	b := l.of
	p, main := b.Run.Program(), b.Run.Main()
	if p.ReloadSignal == 0 { // a reload of superd has removed it meanwhile
		l.act()
		return
	}
	l.signal, l.signalAt = p.ReloadSignal, b.now()
	name, pid := signame.Name(l.signal), main.Pid()
	if err := main.Signal(l.signal); err != nil {
		l.end(Outcome{Message: fmt.Sprintf("not reloaded: %s not sent to process %d: %v", name, pid, err)})
		return
	}
	if !p.ReloadNotify {
		l.end(Outcome{OK: true, Message: fmt.Sprintf("reloaded: %s sent to process %d", name, pid)})
		return
	}
	l.stage = snapshot.ReloadConfirm
	l.awaitReloading(b.now() + p.StartTimeout)
	b.Run.Save()
}

// awaitReloading waits for RELOADING=1.
func (l *reload) awaitReloading(until time.Duration) {
	b := l.of
	l.due = b.Main.After(max(until-b.now(), 0), func() {
		b.Run.WhenNotifyDrained(func() {
			if b.reload == l && !l.confirmed && !l.due.Active() { // else it came in time
				l.end(Outcome{Message: l.unconfirmed()})
			}
		})
	})
}

// unconfirmed says that RELOADING=1 did not come in time.
func (l *reload) unconfirmed() string {
	timeout := words.Duration(l.of.Run.Program().StartTimeout)
	if l.signal == 0 { // a reload of superd has removed it
		return fmt.Sprintf("no RELOADING=1 within start_timeout %s", timeout)
	}
	name := signame.Name(l.signal)
	return fmt.Sprintf("no RELOADING=1 within start_timeout %s after %s: remove reload_notify if "+
		"the program does not report its reloads", timeout, name)
}

// Confirmation returns the timer of the wait for RELOADING=1; nil without one. b may be nil.
func (b *Commands) Confirmation() *loop.Timer {
	if b == nil || b.reload == nil {
		return nil
	}
	return b.reload.due
}

// OnReloading handles RELOADING=1. A message from before the signal does not count. b may be nil.
func (b *Commands) OnReloading(m notify.Message) {
	if b == nil || b.reload == nil {
		return
	}
	l := b.reload
	if l.stage != snapshot.ReloadConfirm || m.Monotonic != 0 && m.Monotonic < l.signalAt {
		return
	}
	l.confirmed = true
	l.due.Stop()
}

// OnReloaded handles the end of a reload that the program has reported. inTime reports whether
// READY=1 ended it. b may be nil.
func (b *Commands) OnReloaded(inTime bool) {
	if b == nil || b.reload == nil {
		return
	}
	switch l := b.reload; {
	case !l.confirmed:
	case inTime:
		l.end(Outcome{OK: true, Message: "reloaded"})
	default:
		l.end(Outcome{Message: fmt.Sprintf("no READY=1 within start_timeout %s after RELOADING=1",
			words.Duration(l.of.Run.Program().StartTimeout))})
	}
}

// abort ends the reload of a run that does not go on. l may be nil.
func (l *reload) abort() {
	if l == nil {
		return
	}
	if l.command != nil {
		l.command.drop()
	}
	l.waiting, l.again, l.next = append(l.waiting, l.next...), false, nil
	l.finish(Outcome{Message: "not reloaded: " + l.of.Run.Machine().StateReason().String()})
}

// end is finish for a run that goes on.
func (l *reload) end(o Outcome) {
	l.finish(o)
	l.of.Run.Save()
}

// finish ends the reload, records its outcome, and begins the next one.
func (l *reload) finish(o Outcome) {
	b := l.of
	l.due.Stop()
	b.reload = nil
	b.recordReload(o)
	b.Run.Changed()
	for _, done := range l.waiting {
		done(o)
	}
	if l.again {
		b.Supervisor.Post(func() { b.Run.Reload(l.next...) }) // the instance may be gone then
	}
}

// recordReload records the outcome of a reload in log and event log, and for the status.
func (b *Commands) recordReload(o Outcome) {
	b.Run.Reloaded(&snapshot.ReloadEnd{OK: o.OK, Outcome: o.String(), At: b.now()})
	reason := fsm.ReasonProgramReloaded.With(strings.TrimPrefix(o.Message, "reloaded"))
	if o.OK {
		b.Log.Info("program reloaded", "instance", b.Instance, "how", o.Message)
	} else {
		reason = fsm.ReasonProgramNotReloaded.With(o.Message)
		b.Log.Warn("program not reloaded", "instance", b.Instance, "reason", o.String())
	}
	b.Run.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload, Output: o.Output}, reason))
}

// does returns what the reload does.
func (l *reload) does() string {
	switch {
	case l.command != nil:
		return "reload: " + l.command.stage()
	case l.confirmed:
		return "reload: waits for READY=1"
	case l.stage == snapshot.ReloadSignal:
		return "reload: waits until the journal has it"
	}
	return "reload: waits for RELOADING=1"
}

// snapshot returns the snapshot of the reload; nil for nil.
func (l *reload) snapshot() *snapshot.Reload {
	if l == nil {
		return nil
	}
	v := &snapshot.Reload{Stage: l.stage, SignalAt: l.signalAt, Confirmed: l.confirmed, Again: l.again}
	if l.due.Active() {
		v.Due = l.due.Due()
	}
	return v
}

// ResumeReload resumes a reload of the predecessor. Nobody waits for its outcome, which is on
// record. A command that ran is ended.
func (b *Commands) ResumeReload(v *snapshot.Reload) {
	switch v.Stage {
	case snapshot.ReloadCheck:
		b.beginReload() // which serves later requests, too
		return
	case snapshot.ReloadConfirm:
		b.reload = &reload{
			of: b, stage: v.Stage, signal: b.Run.Program().ReloadSignal, signalAt: v.SignalAt,
			confirmed: v.Confirmed, again: v.Again,
		}
		if !v.Confirmed {
			b.reload.awaitReloading(v.Due)
		} else {
			b.Run.ResumeReloading()
		}
		return
	case snapshot.ReloadSignal:
		b.recordReload(Outcome{Message: "superd was restarted when it sent reload_signal: " +
			"it is unknown whether the program has reloaded"})
	default:
		b.recordReload(Outcome{Message: "superd was restarted during reload_command"})
	}
	if b.Run.Save(); v.Again {
		b.Supervisor.Post(func() { b.Run.Reload() })
	}
}
