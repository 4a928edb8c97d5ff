package instance

import (
	"fmt"
	"strconv"
	"time"

	"superd/internal/words"
	"superd/loop"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/notify"
	"superd/procs/snapshot"
)

// addNotify adds the notify socket, the ready descriptor and their variables to the specification
// of a start.
func (r *run) addNotify(spec *host.SpawnSpec, record *startRecord) {
	in, p := r.in, r.program
	if p.Ready != nil {
		spec.ReadyFD = p.Ready.FD
	}
	if spec.NotifySocket = in.Env.Paths.NotifySocket(in.Name, p); spec.NotifySocket != "" {
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

// listenForNotify takes over the descriptors on which superd receives notifications; -1: none.
func (r *run) listenForNotify(notify, ready int) {
	if notify >= 0 {
		r.listen(notify)
	}
	if ready >= 0 {
		r.ownNotifyState().readyFD = ready
		r.main.scope.Defer(func() {
			if r.readyFD >= 0 { // no readiness has claimed it
				r.in.Env.Host.CloseFD(r.readyFD)
			}
		})
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
		in.Env.Log.Error("notifications are received late", "instance", in.Name, "error", err)
	}
	r.ownNotifyState().listener = listener
}

// releaseNotifyFDs releases the stored notify socket and readiness pipe at the end of the run.
func (r *run) releaseNotifyFDs() {
	for _, storedName := range []string{r.notifyFDName, r.readyFDName} {
		if storedName != "" {
			r.scope.Defer(func() { r.in.Env.FDs.Release(storedName) })
		}
	}
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
		r.monitor.WatchdogPing()
	}
	if m.Reloading && (in.Machine.State() == fsm.Running || in.Machine.State() == fsm.StopPending) {
		r.beside.OnReloading(m)
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
		r.monitor.WatchdogPing()
	}
	if mustSave {
		in.Save()
	}
	switch state := in.Machine.State(); {
	case m.Ready && state == fsm.Starting && r.readiness != nil && r.program.Ready != nil && r.program.Ready.Notify:
		(*port)(r).ConditionMet()
		return true
	case m.Ready && r.reloadTimer != nil:
		r.reloadTimer.Stop()
		r.endProgramReload(true)
		return true
	case m.WatchdogTrigger && r.monitor != nil && watchdogInterval(r) > 0:
		r.monitor.WatchdogFired("watchdog: WATCHDOG=trigger")
		return true
	}
	return mustSave
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
	if in.Machine.State() != fsm.Running && in.Machine.State() != fsm.StopPending {
		return
	}
	if v.Reloading != nil {
		r.beginProgramReload(*v.Reloading)
	}
	if v.Leaving != nil {
		r.beginOwnStop(*v.Leaving)
	}
}

// beginProgramReload records that the program reloads its configuration. Health checks do not count
// until READY=1 or the end of the start time-out.
func (r *run) beginProgramReload(until time.Duration) {
	in := r.in
	r.reloadTimer.Stop()
	var timer *loop.Timer
	timer = r.main.scope.After(max(until-in.Env.Loop.Now(), 0), func() {
		r.whenNotifyDrained(func() {
			if r.reloadTimer == timer && !timer.Active() { // else READY=1 came just in time
				r.endProgramReload(false)
			}
		})
	})
	r.ownNotifyState().reloadTimer = timer
	in.Env.Owner.Changed()
}

// endProgramReload records the end of the program's reload. inTime reports whether READY=1 ended
// it.
func (r *run) endProgramReload(inTime bool) {
	in := r.in
	state := r.ownNotifyState()
	state.reloadTimer, state.reloadedAt = nil, in.Env.Loop.Now()
	r.beside.OnReloaded(inTime)
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
	r.monitor.WatchdogPing()
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
			r.readiness.Extend(until)
		}
	case fsm.Running, fsm.StopPending:
		extendTimer(r.beside.Confirmation())
		extendTimer(r.reloadTimer)
		extendTimer(r.ownStopTimer)
	case fsm.Stopping:
		if until = min(until, r.stop.limit); until > r.stop.deadline && !in.Env.Owner.Phase().Hurry {
			r.stop.deadline = until
			r.stop.timer.Reset(until - now)
		}
	}
}
