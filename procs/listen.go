package procs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"superd/config"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
)

// notifyDir is the directory of notify sockets, below the runtime directory.
const notifyDir = "notify"

// maxExtension is how many stop time-outs a stop may take, however often the program asks for more time.
const maxExtension = 10

// notifySocket returns the path of the notify socket of a run; empty where it gets none.
func (in *instance) notifySocket(p *config.Program) string {
	if p.Watchdog == 0 && (p.Ready == nil || !p.Ready.Notify) {
		return ""
	}
	return filepath.Join(in.sup.options.RuntimeDir, notifyDir, in.name)
}

// tell puts what the program needs for telling superd something into the specification of its start.
func (in *instance) tell(spec *SpawnSpec, p *config.Program, b *birth) {
	if p.Ready != nil {
		spec.ReadyFD = p.Ready.FD
	}
	if spec.NotifySocket = in.notifySocket(p); spec.NotifySocket != "" {
		spec.Own.Set("NOTIFY_SOCKET", spec.NotifySocket)
	}
	if p.Watchdog > 0 {
		spec.Own.Set("WATCHDOG_USEC", strconv.FormatInt(p.Watchdog.Microseconds(), 10))
	}
	if spec.NotifySocket != "" {
		b.value.Notify = in.sup.reserve(false)
	}
	if spec.ReadyFD != 0 {
		b.value.Ready = in.sup.reserve(false)
	}
}

// made has the keeper keep what was made for the birth: before it, since what the program tells and prints at once must not be lost with superd. It is
// called off the loop.
func (b *birth) made(notify, ready int, outputs []int) {
	names, fds := []string{b.value.Notify, b.value.Ready}, []int{notify, ready}
	for which, fd := range outputs {
		names, fds = append(names, b.value.Kept[which]), append(fds, fd)
	}
	for i, name := range names {
		if name != "" && fds[i] >= 0 {
			b.in.sup.keeper.Store(name, fds[i])
		}
	}
	b.kept = true
}

// A telling is by what a run's processes tell superd something, and what they have told. Most tell nothing.
type telling struct {
	notifyKept     string        // the names under which the keeper has the notify socket
	readyKept      string        // and the pipe on which the main process tells that it is ready
	printsFrom     [2]string     // where its output begins in the log of a [logs.Stream], as a [logs.Cursor]; empty: not known, or not needed
	readyFD        int           // the reading end of that pipe; -1: none, or it has another owner
	listener       Listener      // on the notify socket; nil without
	statusText     string        // what it has said of itself
	watchdogPeriod time.Duration // that it has asked for; 0: that of the configuration
	reloading      *loop.Timer   // until it is over; nil unless it reads its configuration
	reloadedAt     time.Duration // when it was over last; 0 before
	leaving        *loop.Timer   // until that is done for it; nil unless it is on its way out by itself
}

// tellsNothing is that of a run of which nothing is told. It is never changed.
var tellsNothing = telling{readyFD: -1}

// tells has the run have one of its own, for what is told.
func (r *run) tells() *telling {
	if r.telling == &tellsNothing {
		t := tellsNothing
		r.telling = &t
	}
	return r.telling
}

// listen hears what the processes of the run tell.
func (in *instance) listen(r *run, fd int) {
	listener, err := in.sup.system.Listen(&r.life, fd, notify.Handler{
		Accept: func(s notify.Sender) bool { return r.process.Pid() == s.Pid || in.tree.Has(s.Pid) },
		Message: func(_ notify.Sender, m notify.Message) (hold bool) {
			return in.told(r, m)
		},
		Settled: in.sup.afterTurn,
		Refused: func(_ notify.Sender, err error) {
			in.sup.log.Warn("notification not taken", "instance", in.name, "error", err)
		},
	})
	if err != nil {
		in.sup.log.Error("notifications are not heard", "instance", in.name, "error", err)
		return
	}
	r.tells().listener = listener
}

// heard has f called when all has been heard that the program has told by now.
func (r *run) heard(f func()) {
	if r.listener == nil {
		f()
		return
	}
	r.listener.WhenTaken(f)
}

// lastWordsLimit bounds how long the end of a main process goes unnoticed since what it, or another one, has told before can't be heard.
const lastWordsLimit = 2 * time.Second

// hearLastWords reports whether all has been heard that the program had told when its main process ended: it may be that another process
// is the main one by then. If not, reap is called when it has.
func (in *instance) hearLastWords(r *run, process Process) bool {
	if r.lastWords != wordsNotAwaited {
		return r.lastWords == wordsHeard
	}
	r.lastWords = wordsAwaited
	inTime := true
	var limit *loop.Timer
	over := func() {
		if r.process != process || r.lastWords == wordsHeard {
			return
		}
		r.lastWords = wordsHeard
		if inTime {
			return
		}
		limit.Stop()
		in.reap(r, process)
		in.sup.Children() // a sweep has come no further than to this zombie
		if r.process == process {
			r.main.Every(unwatchedPause, func() { in.reap(r, process) }) // a tracer has it yet
		}
	}
	r.heard(over)
	if inTime = false; r.lastWords == wordsAwaited && r.process == process {
		r.mainWatch.Stop() // it would have reap called in each turn
		limit = r.life.After(lastWordsLimit, over)
	}
	return r.lastWords == wordsHeard && r.process == process
}

// told does what a message says. hold: it must not be lost before what follows from it is saved. Where nothing follows any more, as after a stop,
// the journal may still be of a time when something did.
func (in *instance) told(r *run, m notify.Message) (hold bool) {
	now := in.sup.loop.Now()
	hold = m.Ready && r.readyAt == 0 || m.Reloading || m.Stopping || m.WatchdogTrigger
	if m.MainPID != 0 {
		in.changeMain(r, m.MainPID)
		hold = true
	}
	if m.HasStatus && m.Status != r.statusText {
		r.tells().statusText = m.Status
		in.save()
		in.sup.changed()
	}
	if m.WatchdogPeriod != 0 && r.watchdogPeriod != m.WatchdogPeriod {
		r.tells().watchdogPeriod, hold = m.WatchdogPeriod, true
		in.fed(r)
	}
	if m.Reloading && (in.machine.state == Running || in.machine.state == Lingering) {
		in.reloads(r, now+r.program.StartTimeout)
		hold = true
	}
	if m.ExtendTimeout != 0 {
		in.extend(r, now+m.ExtendTimeout)
		hold = true
	}
	if m.Stopping && in.machine.state == Running && r.leaving == nil {
		in.leaves(r, now+r.program.StopTimeout)
		hold = true
	}
	if m.Watchdog {
		in.fed(r)
	}
	if hold {
		in.save()
	}
	switch state := in.machine.state; {
	case m.Ready && state == Starting && r.readiness != nil && r.program.Ready != nil && r.program.Ready.Notify:
		r.readiness.became()
		return true
	case m.Ready && r.reloading != nil:
		r.reloading.Stop()
		in.reloaded(r)
		return true
	case m.WatchdogTrigger && r.monitor != nil && in.watchdogPeriod() > 0:
		r.monitor.bite("watchdog: WATCHDOG=trigger")
		return true
	}
	return hold
}

// fed is a sign of life.
func (in *instance) fed(r *run) {
	if r.monitor != nil {
		r.monitor.fed()
	}
}

// reloads notes that the program reads its configuration anew: until it says READY=1, or the start time-out is over, no check of its
// health counts.
func (in *instance) reloads(r *run, until time.Duration) {
	r.reloading.Stop()
	r.tells().reloading = r.life.After(max(until-in.sup.loop.Now(), 0), func() { in.reloaded(r) })
	in.sup.changed()
}

// reloaded notes that this is over.
func (in *instance) reloaded(r *run) {
	t := r.tells()
	t.reloading, t.reloadedAt = nil, in.sup.loop.Now()
	in.save()
	in.sup.changed()
}

// leaves notes that the program is on its way out by itself. What it does not do in time is done for it.
func (in *instance) leaves(r *run, until time.Duration) {
	r.tells().leaving = r.life.After(max(until-in.sup.loop.Now(), 0), func() {
		if in.machine.state == Running {
			reason := fmt.Sprintf("it has said STOPPING=1, and has not ended for %s", plain(r.program.StopTimeout))
			in.do(func() []Effect { return in.machine.condemn(Unfit, reason) })
		}
	})
	in.fed(r)
	in.sup.changed()
}

// extend gives the program more time for what it is about: its start, its end, or reading its configuration.
func (in *instance) extend(r *run, until time.Duration) {
	now := in.sup.loop.Now()
	longer := func(t *loop.Timer) {
		if t.Active() && until > t.Due() {
			t.Reset(until - now)
		}
	}
	switch in.machine.state {
	case Starting:
		if r.readiness != nil {
			r.readiness.extend(until)
		}
	case Running:
		longer(r.reloading)
		longer(r.leaving)
	case Stopping:
		if until = min(until, r.stopLimit); until > r.stopDeadline && !in.sup.inHurry() {
			r.stopDeadline = until
			r.stopTimer.Reset(until - now)
		}
	}
}

// changeMain makes another process of the tree the main one, whose end is that of the run. The one before is like any other of the
// tree from now on: superd reaps it as it reaps orphans.
func (in *instance) changeMain(r *run, pid int) {
	process, id, err := in.sup.system.Open(in.tree, pid)
	own := r.process.Pid() == pid
	if err != nil {
		if errors.Is(err, pidfd.ErrGone) {
			if own {
				return
			}
			err = fmt.Errorf("process %d is none of the program's", pid)
		}
		in.sup.log.Warn("main process not changed", "instance", in.name, "error", err)
		return
	}
	if own && (id == r.id || r.id.Start == 0) { // and not another one, which has got the number of the main process that has ended
		process.Close()
		return
	}
	in.sup.log.Info("main process changed", "instance", in.name, "from", r.process.Pid(), "to", pid)
	if r.group == 0 {
		r.group = int32(r.process.Pid()) // the group stays that of who was started
	}
	in.sup.disown(r.process)
	r.main.Close()
	in.sup.Children() // if it has ended, a sweep may have left it to its owner
	adopted := in.sup.adopt(process, id)
	in.ownMain(r, adopted, id, in.sup.keepProcess(adopted))
	in.signalMain()
	in.sup.changed()
}

// signalMain sends to a process that has become the main one what the one before has got already, if that is to end. It may get a stop signal twice, that of
// its group, too.
func (in *instance) signalMain() {
	switch in.machine.state {
	case Stopping:
		in.signalStop()
	case Killing:
		in.unstick()
		in.signalKill()
		in.perform(ArmKill)
	}
}

// disown gives up a child that has not ended.
func (s *Supervisor) disown(process Process) {
	pid := process.Pid()
	if a, ok := process.(*adopted); ok {
		key := processKey{a.id.Pid, a.id.Start}
		if s.adopted[key] == a {
			delete(s.adopted, key)
		}
		if a.reap != nil {
			return
		}
	}
	delete(s.byPid, pid)
}
