package instance

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
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
func (in *Instance) notifySocketPath(p *config.Program) string {
	if p.Watchdog == 0 && (p.Ready == nil || !p.Ready.Notify) {
		return ""
	}
	return in.Env.notifySocket(in.Name)
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
func (in *Instance) addNotify(spec *host.SpawnSpec, p *config.Program, record *startRecord) {
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
		record.value.Notify = in.Env.FDs.Reserve(false)
	}
	if spec.ReadyFD != 0 {
		record.value.Ready = in.Env.FDs.Reserve(false)
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
			record.in.Env.FDs.Store(name, fds[i])
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
func (r *run) restoreAnnouncements(v *snapshot.Run) {
	in := r.in
	if in.Machine.State() != fsm.Running {
		return
	}
	if v.Reloading != nil {
		r.beginProgramReload(*v.Reloading)
	}
	if v.Leaving != nil {
		r.beginOwnStop(*v.Leaving)
	}
}

// listen handles the notifications that the run's processes send to the socket fd.
func (r *run) listen(fd int) {
	in := r.in
	listener, err := in.Env.Host.Listen(&r.main.scope, fd, notify.Handler{
		Accept: func(s notify.Sender) bool { return r.main.process.Pid() == s.Pid || in.Tree.Has(s.Pid) },
		Message: func(_ notify.Sender, m notify.Message) (mustSave bool) {
			return r.onNotify(m)
		},
		WhenRecorded: in.Env.Records.AfterTurn,
		Refused: func(_ notify.Sender, err error) {
			in.Env.Log.Warn("notification refused", "instance", in.Name, "error", err)
		},
	})
	if err != nil {
		in.Env.Log.Error("notifications not received", "instance", in.Name, "error", err)
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

// NotifyDrainLimit bounds how long the exit of a main process is delayed while earlier
// notifications can't be read.
const NotifyDrainLimit = 2 * time.Second

// drainNotify reports whether all notifications sent before the exit of the main process
// are read: one of them may name another main process. If not, reap is called later.
func (m *mainProcess) drainNotify(process host.Process) bool {
	r := m.run
	in := r.in
	if m.drain != drainNotStarted {
		return m.drain == drainDone
	}
	m.drain = drainStarted
	synchronous := true
	var limit *loop.Timer
	finish := func() {
		if m.process != process || m.drain == drainDone {
			return
		}
		m.drain = drainDone
		if synchronous {
			return
		}
		limit.Stop()
		m.reap(process)
		in.Env.Reaper.Schedule() // the reaping of orphans may have stopped at this zombie
		if m.process == process {
			// A tracer still has it
			m.pidfdScope.Every(host.UnwatchedPause, func() { m.reap(process) })
		}
	}
	r.whenNotifyDrained(finish)
	if synchronous = false; m.drain == drainStarted && m.process == process {
		m.watch.Stop() // it would call reap in each turn
		limit = m.scope.After(NotifyDrainLimit, finish)
	}
	return m.drain == drainDone && m.process == process
}

// onNotify applies a message. mustSave reports that the message must not be dropped before its
// effects are saved, even if it has none in the current state: the journal may describe an earlier
// state.
func (r *run) onNotify(m notify.Message) (mustSave bool) {
	in := r.in
	now := in.Env.Loop.Now()
	mustSave = m.Ready && r.readyAt == 0 || m.Reloading || m.Stopping || m.WatchdogTrigger
	if m.MainPID != 0 {
		r.main.change(m.MainPID)
		mustSave = true
	}
	if m.HasStatus && m.Status != r.statusText {
		r.ownNotifyState().statusText = m.Status
		in.Save()
		in.Env.Owner.Changed()
	}
	if m.WatchdogPeriod != 0 && r.watchdogPeriod != m.WatchdogPeriod {
		r.ownNotifyState().watchdogPeriod, mustSave = m.WatchdogPeriod, true
		r.watchdogPing()
	}
	if m.Reloading && (in.Machine.State() == fsm.Running || in.Machine.State() == fsm.StopPending) {
		r.beginProgramReload(now + r.program.StartTimeout)
		mustSave = true
	}
	if m.ExtendTimeout != 0 {
		r.extend(now + m.ExtendTimeout)
		mustSave = true
	}
	if m.Stopping && in.Machine.State() == fsm.Running && r.ownStopTimer == nil {
		r.beginOwnStop(now + r.program.StopTimeout)
		mustSave = true
	}
	if m.Watchdog {
		r.watchdogPing()
	}
	if mustSave {
		in.Save()
	}
	switch state := in.Machine.State(); {
	case m.Ready && state == fsm.Starting && r.readiness != nil && r.program.Ready != nil && r.program.Ready.Notify:
		r.readiness.becameReady()
		return true
	case m.Ready && r.reloadTimer != nil:
		r.reloadTimer.Stop()
		r.endProgramReload()
		return true
	case m.WatchdogTrigger && r.monitor != nil && r.watchdogInterval() > 0:
		r.monitor.watchdogFired("watchdog: WATCHDOG=trigger")
		return true
	}
	return mustSave
}

// watchdogPing handles a watchdog message.
func (r *run) watchdogPing() {
	if r.monitor != nil {
		r.monitor.watchdogPing()
	}
}

// beginProgramReload records that the program reloads its configuration. Health checks do not count
// until READY=1 or the end of the start time-out.
func (r *run) beginProgramReload(until time.Duration) {
	in := r.in
	r.reloadTimer.Stop()
	r.ownNotifyState().reloadTimer = r.main.scope.After(max(until-in.Env.Loop.Now(), 0), func() { r.endProgramReload() })
	in.Env.Owner.Changed()
}

// endProgramReload records the end of the program's reload.
func (r *run) endProgramReload() {
	in := r.in
	state := r.ownNotifyState()
	state.reloadTimer, state.reloadedAt = nil, in.Env.Loop.Now()
	in.Save()
	in.Env.Owner.Changed()
}

// beginOwnStop records that the program has announced its own stop. superd stops it if it still
// runs at until.
func (r *run) beginOwnStop(until time.Duration) {
	in := r.in
	r.ownNotifyState().ownStopTimer = r.main.scope.After(max(until-in.Env.Loop.Now(), 0), func() {
		if in.Machine.State() == fsm.Running {
			reason := fsm.ReasonExitTimeout.With(
				fmt.Sprintf("it sent STOPPING=1 and has not exited for %s",
					words.Duration(r.program.StopTimeout)))
			in.Apply(in.Machine.FailRun(fsm.HealthFailed, reason))
		}
	})
	r.watchdogPing()
	in.Env.Owner.Changed()
}

// extend extends the deadline of what the program does: start, stop or reload.
func (r *run) extend(until time.Duration) {
	in := r.in
	now := in.Env.Loop.Now()
	extendTimer := func(t *loop.Timer) {
		if t.Active() && until > t.Due() {
			t.Reset(until - now)
		}
	}
	switch in.Machine.State() {
	case fsm.Starting:
		if r.readiness != nil {
			r.readiness.extend(until)
		}
	case fsm.Running:
		extendTimer(r.reloadTimer)
		extendTimer(r.ownStopTimer)
	case fsm.Stopping:
		if until = min(until, r.stop.limit); until > r.stop.deadline && !in.Env.Owner.Phase().Hurry {
			r.stop.deadline = until
			r.stop.timer.Reset(until - now)
		}
	}
}

// change makes another process of the tree the main process. The previous one becomes an
// ordinary process of the tree, which superd reaps like an orphan.
func (m *mainProcess) change(pid int) {
	in := m.run.in
	process, id, err := in.Env.Host.Open(in.Tree, pid)
	own := m.process.Pid() == pid
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
	if own && (id == m.id || m.id.Start == 0) {
		process.Close()
		return
	}
	in.logMain(slog.LevelInfo, "main process changed", "from", m.process.Pid(), "to", pid)
	if m.group == 0 {
		m.group = int32(m.process.Pid()) // of the first main process
	}
	in.Env.Reaper.DropChild(m.process)
	m.pidfdScope.Close()
	in.Env.Reaper.Schedule() // reaps it if it has ended
	adopted := in.Env.Reaper.Adopt(process, id)
	m.set(adopted, id, in.Env.FDs.StoreProcess(adopted))
	in.signalNewMain()
	in.Env.Owner.Changed()
}

// logMain logs the result of MAINPID=, within the program's limit.
func (in *Instance) logMain(level slog.Level, message string, attrs ...any) {
	suppressed, ok := in.ownProblems().mainPidLog.Allow(in.Env.Loop.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "not_logged_before", suppressed)
	}
	in.Env.Log.Log(context.Background(), level, message, append([]any{"instance", in.Name}, attrs...)...)
}

// signalNewMain sends the new main process the stop signal or SIGKILL that the previous one got.
// The stop signal may reach it twice, once through its group.
func (in *Instance) signalNewMain() {
	switch in.Machine.State() {
	case fsm.Stopping:
		in.run.stop.begin()
	case fsm.Killing:
		in.clearUnkillable()
		in.run.stop.kill()
		in.perform(fsm.ArmKill)
	}
}
