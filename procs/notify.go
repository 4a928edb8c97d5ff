package procs

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"superd/config"
	"superd/internal/words"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/notify"
	"superd/procs/snapshot"
)

// maxExtension bounds the duration of a stop that the program extends, in stop time-outs.
const maxExtension = 10

// notifySocketPath returns the path of the notify socket of a run; empty if the program has none.
func (in *instance) notifySocketPath(p *config.Program) string {
	if p.Watchdog == 0 && (p.Ready == nil || !p.Ready.Notify) {
		return ""
	}
	return in.socketPath()
}

// socketPath returns the path that the instance's notify socket has, if there is one.
func (in *instance) socketPath() string {
	options := &in.sup.options
	return filepath.Join(options.Paths.NotifyDir, socketName(options.NotifyKey, in.name))
}

// socketName returns the name of an instance's notify socket. Any process that knows the name can
// send to it, so it must not be guessable: it is the beginning of a keyed hash. A successor has the
// key and computes the same name. All names have 22 bytes.
func socketName(key []byte, instance string) string {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(instance))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16])
}

// addNotify adds the notify socket, the ready descriptor and their variables to the specification
// of a start.
func (in *instance) addNotify(spec *host.SpawnSpec, p *config.Program, record *startRecord) {
	if p.Ready != nil {
		spec.ReadyFD = p.Ready.FD
	}
	if spec.NotifySocket = in.notifySocketPath(p); spec.NotifySocket != "" {
		spec.Own.Set("NOTIFY_SOCKET", spec.NotifySocket)
	}
	if p.Watchdog > 0 {
		spec.Own.Set("WATCHDOG_USEC", strconv.FormatInt(p.Watchdog.Microseconds(), 10))
	}
	if spec.NotifySocket != "" {
		record.value.Notify = in.sup.fds.reserve(false)
	}
	if spec.ReadyFD != 0 {
		record.value.Ready = in.sup.fds.reserve(false)
	}
}

// storeFDs stores the descriptors created for the start in the descriptor store. It is called off
// the loop, before the program runs, so that early notifications and output survive superd.
func (record *startRecord) storeFDs(notify, ready int, outputs []int) {
	names, fds := []string{record.value.Notify, record.value.Ready}, []int{notify, ready}
	for which, fd := range outputs {
		names, fds = append(names, record.value.FDNames[which]), append(fds, fd)
	}
	for i, name := range names {
		if name != "" && fds[i] >= 0 {
			record.in.sup.fds.keeper.Store(name, fds[i])
		}
	}
	record.stored = true
}

// A notifyState holds the channels by which the processes of a run notify superd, and what they
// have reported. Most runs need none.
type notifyState struct {
	notifyFDName string // name of the notify socket in the descriptor store
	readyFDName  string // name of the pipe on which the main process reports readiness
	// By [logs.Stream]: the [logs.Cursor] at which the output of the run begins; empty: unknown, or
	// not needed
	outputStart [2]string
	readyFD     int           // read end of that pipe; -1: none, or it has another owner
	listener    host.Listener // on the notify socket; nil without one
	statusText  string        // last STATUS= of the program
	// Period that the program requested; 0: that of the configuration
	watchdogPeriod time.Duration
	// Ends a reload that the program announced; nil without one
	reloadTimer *loop.Timer
	reloadedAt  time.Duration // end of the last reload; 0 before
	// Deadline of a stop that the program announced; nil without one
	ownStopTimer *loop.Timer
}

// noNotifyState is shared by all runs without notifications. It is never changed.
var noNotifyState = notifyState{readyFD: -1}

// ownNotifyState returns the run's own notifyState, for writing, and allocates it if necessary.
func (r *run) ownNotifyState() *notifyState {
	if r.notifyState == &noNotifyState {
		t := noNotifyState
		r.notifyState = &t
	}
	return r.notifyState
}

// snapshot sets the names of the channels, and what the program has reported, in the record of the
// run.
func (t *notifyState) snapshot(v *snapshot.Run) {
	v.Notify, v.Ready = t.notifyFDName, t.readyFDName
	v.StatusText, v.Watchdog = t.statusText, t.watchdogPeriod
	if t.reloadTimer.Active() {
		v.Reloading = new(t.reloadTimer.Due())
	}
	if t.ownStopTimer.Active() {
		v.Leaving = new(t.ownStopTimer.Due())
	}
}

// restoreNotify sets what the program has reported. notify and ready are the names of the channels,
// which may be stored anew.
func (r *run) restoreNotify(v *snapshot.Run, notify, ready string) {
	if notify == "" && ready == "" && v.StatusText == "" && v.Watchdog == 0 {
		return
	}
	t := r.ownNotifyState()
	t.notifyFDName, t.readyFDName = notify, ready
	t.statusText, t.watchdogPeriod = v.StatusText, v.Watchdog
}

// restoreAnnouncements resumes the reload and the stop that the program has announced. It follows
// restoreNotify when the main process is set.
func (in *instance) restoreAnnouncements(r *run, v *snapshot.Run) {
	if in.machine.State() != fsm.Running {
		return
	}
	if v.Reloading != nil {
		in.beginProgramReload(r, *v.Reloading)
	}
	if v.Leaving != nil {
		in.beginOwnStop(r, *v.Leaving)
	}
}

// listen handles the notifications that the run's processes send to the socket fd.
func (in *instance) listen(r *run, fd int) {
	listener, err := in.sup.host.Listen(&r.mainScope, fd, notify.Handler{
		Accept: func(s notify.Sender) bool { return r.process.Pid() == s.Pid || in.tree.Has(s.Pid) },
		Message: func(_ notify.Sender, m notify.Message) (mustSave bool) {
			return in.onNotify(r, m)
		},
		WhenRecorded: in.sup.recorder.afterTurn,
		Refused: func(_ notify.Sender, err error) {
			in.sup.log.Warn("notification refused", "instance", in.name, "error", err)
		},
	})
	if err != nil {
		in.sup.log.Error("notifications not received", "instance", in.name, "error", err)
		return
	}
	r.ownNotifyState().listener = listener
}

// whenNotifyDrained calls f when all notifications sent by now are read.
func (r *run) whenNotifyDrained(f func()) {
	if r.listener == nil {
		f()
		return
	}
	r.listener.WhenTaken(f)
}

// notifyDrainLimit bounds how long the exit of a main process is delayed while earlier
// notifications can't be read.
const notifyDrainLimit = 2 * time.Second

// drainNotifyBeforeReap reports whether all notifications sent before the exit of the main process
// are read: one of them may name another main process. If not, reap is called later.
func (in *instance) drainNotifyBeforeReap(r *run, process host.Process) bool {
	if r.notifyDrain != drainNotStarted {
		return r.notifyDrain == drainDone
	}
	r.notifyDrain = drainStarted
	synchronous := true
	var limit *loop.Timer
	finish := func() {
		if r.process != process || r.notifyDrain == drainDone {
			return
		}
		r.notifyDrain = drainDone
		if synchronous {
			return
		}
		limit.Stop()
		in.reap(r, process)
		in.sup.reaper.schedule() // the reaping of orphans may have stopped at this zombie
		if r.process == process {
			// A tracer still has it
			r.pidfdScope.Every(unwatchedPause, func() { in.reap(r, process) })
		}
	}
	r.whenNotifyDrained(finish)
	if synchronous = false; r.notifyDrain == drainStarted && r.process == process {
		r.mainWatch.Stop() // it would call reap in each turn
		limit = r.mainScope.After(notifyDrainLimit, finish)
	}
	return r.notifyDrain == drainDone && r.process == process
}

// onNotify applies a message. mustSave reports that the message must not be dropped before its
// effects are saved, even if it has none in the current state: the journal may describe an earlier
// state.
func (in *instance) onNotify(r *run, m notify.Message) (mustSave bool) {
	now := in.sup.loop.Now()
	mustSave = m.Ready && r.readyAt == 0 || m.Reloading || m.Stopping || m.WatchdogTrigger
	if m.MainPID != 0 {
		in.changeMain(r, m.MainPID)
		mustSave = true
	}
	if m.HasStatus && m.Status != r.statusText {
		r.ownNotifyState().statusText = m.Status
		in.save()
		in.sup.subscriptions.changed()
	}
	if m.WatchdogPeriod != 0 && r.watchdogPeriod != m.WatchdogPeriod {
		r.ownNotifyState().watchdogPeriod, mustSave = m.WatchdogPeriod, true
		in.watchdogPing(r)
	}
	if m.Reloading && (in.machine.State() == fsm.Running || in.machine.State() == fsm.StopPending) {
		in.beginProgramReload(r, now+r.program.StartTimeout)
		mustSave = true
	}
	if m.ExtendTimeout != 0 {
		in.extend(r, now+m.ExtendTimeout)
		mustSave = true
	}
	if m.Stopping && in.machine.State() == fsm.Running && r.ownStopTimer == nil {
		in.beginOwnStop(r, now+r.program.StopTimeout)
		mustSave = true
	}
	if m.Watchdog {
		in.watchdogPing(r)
	}
	if mustSave {
		in.save()
	}
	switch state := in.machine.State(); {
	case m.Ready && state == fsm.Starting && r.readiness != nil && r.program.Ready != nil && r.program.Ready.Notify:
		r.readiness.becameReady()
		return true
	case m.Ready && r.reloadTimer != nil:
		r.reloadTimer.Stop()
		in.endProgramReload(r)
		return true
	case m.WatchdogTrigger && r.monitor != nil && in.watchdogPeriod() > 0:
		r.monitor.watchdogFired("watchdog: WATCHDOG=trigger")
		return true
	}
	return mustSave
}

// watchdogPing handles a watchdog message.
func (in *instance) watchdogPing(r *run) {
	if r.monitor != nil {
		r.monitor.watchdogPing()
	}
}

// beginProgramReload records that the program reloads its configuration. Health checks do not count
// until READY=1 or the end of the start time-out.
func (in *instance) beginProgramReload(r *run, until time.Duration) {
	r.reloadTimer.Stop()
	r.ownNotifyState().reloadTimer = r.mainScope.After(max(until-in.sup.loop.Now(), 0), func() { in.endProgramReload(r) })
	in.sup.subscriptions.changed()
}

// endProgramReload records the end of the program's reload.
func (in *instance) endProgramReload(r *run) {
	state := r.ownNotifyState()
	state.reloadTimer, state.reloadedAt = nil, in.sup.loop.Now()
	in.save()
	in.sup.subscriptions.changed()
}

// beginOwnStop records that the program has announced its own stop. superd stops it if it still
// runs at until.
func (in *instance) beginOwnStop(r *run, until time.Duration) {
	r.ownNotifyState().ownStopTimer = r.mainScope.After(max(until-in.sup.loop.Now(), 0), func() {
		if in.machine.State() == fsm.Running {
			reason := fsm.ReasonExitTimeout.With(
				fmt.Sprintf("it sent STOPPING=1 and has not exited for %s",
					words.Duration(r.program.StopTimeout)))
			in.apply(in.machine.FailRun(fsm.HealthFailed, reason))
		}
	})
	in.watchdogPing(r)
	in.sup.subscriptions.changed()
}

// extend extends the deadline of what the program does: start, stop or reload.
func (in *instance) extend(r *run, until time.Duration) {
	now := in.sup.loop.Now()
	extendTimer := func(t *loop.Timer) {
		if t.Active() && until > t.Due() {
			t.Reset(until - now)
		}
	}
	switch in.machine.State() {
	case fsm.Starting:
		if r.readiness != nil {
			r.readiness.extend(until)
		}
	case fsm.Running:
		extendTimer(r.reloadTimer)
		extendTimer(r.ownStopTimer)
	case fsm.Stopping:
		if until = min(until, r.stopLimit); until > r.stopDeadline && !in.sup.shutdown.hurry {
			r.stopDeadline = until
			r.stopTimer.Reset(until - now)
		}
	}
}

// changeMain makes another process of the tree the main process. The previous one becomes an
// ordinary process of the tree, which superd reaps like an orphan.
func (in *instance) changeMain(r *run, pid int) {
	process, id, err := in.sup.host.Open(in.tree, pid)
	own := r.process.Pid() == pid
	if err != nil {
		if errors.Is(err, pidfd.ErrGone) {
			if own {
				return
			}
			err = fmt.Errorf("process %d does not belong to the program", pid)
		}
		in.logMain(slog.LevelWarn, "main process not changed", "error", err)
		return
	}
	// The main process may have ended and a new process may reuse its pid
	if own && (id == r.id || r.id.Start == 0) {
		process.Close()
		return
	}
	in.logMain(slog.LevelInfo, "main process changed", "from", r.process.Pid(), "to", pid)
	if r.group == 0 {
		r.group = int32(r.process.Pid()) // of the first main process
	}
	in.sup.reaper.dropChild(r.process)
	r.pidfdScope.Close()
	in.sup.reaper.schedule() // reaps it if it has ended
	adopted := in.sup.reaper.adopt(process, id)
	in.setMain(r, adopted, id, in.sup.fds.storeProcess(adopted))
	in.signalNewMain()
	in.sup.subscriptions.changed()
}

// logMain logs the result of MAINPID=, within the program's limit.
func (in *instance) logMain(level slog.Level, message string, attrs ...any) {
	suppressed, ok := in.ownProblems().mainPidLog.allow(in.sup.loop.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "not_logged_before", suppressed)
	}
	in.sup.log.Log(context.Background(), level, message, append([]any{"instance", in.name}, attrs...)...)
}

// signalNewMain sends the new main process the stop signal or SIGKILL that the previous one got.
// The stop signal may reach it twice, once through its group.
func (in *instance) signalNewMain() {
	switch in.machine.State() {
	case fsm.Stopping:
		in.signalStop()
	case fsm.Killing:
		in.clearUnkillable()
		in.signalKill()
		in.perform(fsm.ArmKill)
	}
}
