package instance

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
	run     *run
	command *command // under way; nil without one
	// What a successor does: it begins again, reports a failure, or waits for the confirmation
	stage     snapshot.ReloadStage
	signal    syscall.Signal // that was sent; 0 if it is not known
	signalAt  time.Duration  // when it was sent
	confirmed bool           // RELOADING=1 came since then
	due       *loop.Timer    // ends the wait for that; nil before and after
	waiting   []func(ReloadOutcome)
	next      []func(ReloadOutcome) // of requests that came since it began: they need another one
}

// A ReloadOutcome is how a reload of a program, or a check of its configuration, ended.
type ReloadOutcome struct {
	OK      bool
	Message string
	Output  []string // last lines of the command that failed
}

// String returns the outcome on one line.
func (o ReloadOutcome) String() string {
	if len(o.Output) == 0 {
		return o.Message
	}
	return o.Message + ": " + strings.Join(o.Output, "; ")
}

// reloadRefusal returns why the program can't be reloaded now; empty if it can.
func reloadRefusal(in *Instance) string {
	r := in.run
	switch {
	case r == nil || in.Machine.State() != fsm.Running:
		return "not reloaded: it is " + in.Machine.State().String()
	case r.program.ReloadSignal == 0 && len(r.program.ReloadCommand) == 0:
		return noReload(in)
	}
	return ""
}

// noReload says that the program has no way to reload.
func noReload(in *Instance) string {
	return fmt.Sprintf("it has no reload_signal and no reload_command: add one, or use `superd ctl restart %s`", in.Name)
}

// Reload reloads the program. Each done is called once, perhaps before Reload returns.
func (in *Instance) Reload(done ...func(ReloadOutcome)) {
	if why := reloadRefusal(in); why != "" {
		for _, answer := range done {
			answer(ReloadOutcome{Message: why})
		}
		return
	}
	if l := in.run.beside.current(); l != nil {
		l.next = append(l.next, done...)
		return
	}
	in.run.ownBeside().beginReload(done...)
}

// CheckConfiguration runs check_command, if the program has one and runs. done is called once,
// perhaps before CheckConfiguration returns.
func CheckConfiguration(in *Instance, done func(ReloadOutcome)) {
	r := in.run
	if r == nil || in.Machine.State() != fsm.Running || len(r.program.CheckCommand) == 0 {
		done(ReloadOutcome{OK: true})
		return
	}
	b := r.ownBeside()
	c := newCommand(r, "check_command", r.program.CheckCommand, "start_timeout", r.program.StartTimeout)
	k := &check{command: c, done: done}
	c.done = func(err error, output []string) {
		b.checks = slices.DeleteFunc(b.checks, func(other *check) bool { return other == k })
		if err != nil {
			done(ReloadOutcome{false, err.Error(), output})
			return
		}
		done(ReloadOutcome{OK: true})
	}
	b.checks = append(b.checks, k)
	c.start(true)
}

// A check is a check_command before a restart.
type check struct {
	command *command
	done    func(ReloadOutcome)
}

// dropChecks ends the checks of a run that does not go on: there is no restart to prevent. The
// instance may be gone when they are answered.
func (b *beside) dropChecks() {
	for _, k := range b.checks {
		k.command.drop()
		b.run.in.Env.Scope.Post(func() { k.done(ReloadOutcome{OK: true}) })
	}
	b.checks = nil
}

// newCommand returns a command of the run, which start starts.
func newCommand(r *run, key string, words []string, limit string, timeout time.Duration) *command {
	return &command{run: r, key: key, words: words, limit: limit, timeout: timeout}
}

// beginReload begins a reload.
func (b *beside) beginReload(waiting ...func(ReloadOutcome)) {
	r := b.run
	l := &reload{run: r, waiting: waiting, stage: snapshot.ReloadCheck}
	b.reload = l
	r.in.Env.Owner.Changed()
	if len(r.program.CheckCommand) == 0 {
		l.act()
		return
	}
	l.execute("check_command", r.program.CheckCommand, l.act)
}

// execute runs a command of the reload, and then calls f if it has succeeded.
func (l *reload) execute(key string, words []string, f func()) {
	p := l.run.program
	l.command = newCommand(l.run, key, words, "start_timeout", p.StartTimeout)
	l.command.done = func(err error, output []string) {
		if l.command = nil; err != nil {
			l.end(ReloadOutcome{false, err.Error(), output})
			return
		}
		f()
	}
	l.command.start(true)
}

// act reloads the program, whose configuration is checked.
func (l *reload) act() {
	r := l.run
	p, in := r.program, r.in
	switch {
	case p.ReloadSignal != 0:
	case len(p.ReloadCommand) == 0: // a reload of superd has removed it
		l.end(ReloadOutcome{Message: noReload(in)})
		return
	default:
		l.stage = snapshot.ReloadCommand
		l.execute("reload_command", p.ReloadCommand, func() { l.end(ReloadOutcome{OK: true, Message: "reloaded"}) })
		return
	}
	l.signal, l.signalAt = p.ReloadSignal, in.Env.Loop.Now()
	name, pid := signame.Name(l.signal), r.main.process.Pid()
	if err := r.main.process.Signal(l.signal); err != nil {
		l.end(ReloadOutcome{Message: fmt.Sprintf("not reloaded: %s not sent to process %d: %v", name, pid, err)})
		return
	}
	if p.Ready == nil || !p.Ready.Notify {
		l.end(ReloadOutcome{OK: true, Message: fmt.Sprintf("reloaded: %s sent to process %d", name, pid)})
		return
	}
	l.stage = snapshot.ReloadConfirm
	l.awaitReloading(in.Env.Loop.Now() + p.StartTimeout)
	in.Save()
}

// awaitReloading waits for RELOADING=1.
func (l *reload) awaitReloading(until time.Duration) {
	r := l.run
	l.due = r.main.scope.After(max(until-r.in.Env.Loop.Now(), 0), func() {
		r.whenNotifyDrained(func() {
			if r.beside.reload == l && !l.confirmed && !l.due.Active() { // else it came in time
				l.end(ReloadOutcome{Message: l.unconfirmed()})
			}
		})
	})
}

// unconfirmed says that RELOADING=1 did not come in time.
func (l *reload) unconfirmed() string {
	timeout := words.Duration(l.run.program.StartTimeout)
	if l.signal == 0 { // a reload of superd has removed it
		return fmt.Sprintf("no RELOADING=1 within start_timeout %s", timeout)
	}
	name := signame.Name(l.signal)
	return fmt.Sprintf("no RELOADING=1 within start_timeout %s after %s: a program that does not "+
		"report its reloads needs reload_command = \"kill -%s ${MAINPID}\" instead of "+
		"reload_signal", timeout, name, strings.TrimPrefix(name, "SIG"))
}

// confirmation returns the timer of the wait for RELOADING=1; nil without one. l may be nil.
func (l *reload) confirmation() *loop.Timer {
	if l == nil {
		return nil
	}
	return l.due
}

// onReloading handles RELOADING=1. A message from before the signal does not count.
func (l *reload) onReloading(m notify.Message) {
	if l == nil || l.stage != snapshot.ReloadConfirm || m.Monotonic != 0 && m.Monotonic < l.signalAt {
		return
	}
	l.confirmed = true
	l.due.Stop()
}

// onReloaded handles the end of a reload that the program has reported. inTime reports whether
// READY=1 ended it.
func (l *reload) onReloaded(inTime bool) {
	switch {
	case l == nil || !l.confirmed:
	case inTime:
		l.end(ReloadOutcome{OK: true, Message: "reloaded"})
	default:
		l.end(ReloadOutcome{Message: fmt.Sprintf("no READY=1 within start_timeout %s after RELOADING=1",
			words.Duration(l.run.program.StartTimeout))})
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
	l.waiting, l.next = append(l.waiting, l.next...), nil
	l.finish(ReloadOutcome{Message: "not reloaded: " + l.run.in.Machine.StateReason().String()})
}

// end is finish for a run that goes on.
func (l *reload) end(o ReloadOutcome) {
	l.finish(o)
	l.run.in.Save()
}

// finish ends the reload, records its outcome, and begins the next one.
func (l *reload) finish(o ReloadOutcome) {
	r := l.run
	in := r.in
	l.due.Stop()
	r.beside.reload = nil
	r.beside.recordReload(o)
	in.Env.Owner.Changed()
	for _, done := range l.waiting {
		done(o)
	}
	if len(l.next) > 0 {
		in.Env.Scope.Post(func() { in.Reload(l.next...) }) // the instance may be gone then
	}
}

// recordReload records the outcome of a reload in log and event log.
func (b *beside) recordReload(o ReloadOutcome) {
	in := b.run.in
	reason := fsm.ReasonProgramReloaded.With(strings.TrimPrefix(o.Message, "reloaded"))
	if o.OK {
		in.Env.Log.Info("program reloaded", "instance", in.Name, "how", o.Message)
	} else {
		reason = fsm.ReasonProgramNotReloaded.With(o.Message)
		in.Env.Log.Warn("program not reloaded", "instance", in.Name, "reason", o.String())
	}
	in.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload, Output: o.Output}, reason))
}

// does returns what the reload does.
func (l *reload) does() string {
	switch {
	case l.command != nil:
		return "reload: " + l.command.stage()
	case l.confirmed:
		return "reload: waits for READY=1"
	}
	return "reload: waits for RELOADING=1"
}

// snapshot returns the snapshot of the reload; nil for nil.
func (l *reload) snapshot() *snapshot.Reload {
	if l == nil {
		return nil
	}
	v := &snapshot.Reload{Stage: l.stage, SignalAt: l.signalAt, Confirmed: l.confirmed}
	if l.due.Active() {
		v.Due = l.due.Due()
	}
	return v
}

// resumeReload resumes a reload of the predecessor. Nobody waits for its outcome, which is on
// record. A command that ran is ended.
func (b *beside) resumeReload(v *snapshot.Reload) {
	r := b.run
	switch {
	case v.Stage == snapshot.ReloadCheck:
		b.beginReload()
	case v.Stage == snapshot.ReloadConfirm:
		b.reload = &reload{
			run: r, stage: v.Stage, signal: r.program.ReloadSignal, signalAt: v.SignalAt, confirmed: v.Confirmed,
		}
		switch {
		case !v.Confirmed:
			b.reload.awaitReloading(v.Due)
		case r.reloadTimer == nil: // its time was just over
			r.beginProgramReload(r.in.Env.Loop.Now())
		}
	default:
		b.recordReload(ReloadOutcome{Message: "superd was restarted during reload_command"})
	}
}
