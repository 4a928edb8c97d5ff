package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
)

// change makes another process of the tree the main process.
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
		m.logChange(slog.LevelWarn, "main process not changed", "error", err)
		return
	}
	// The main process may have ended and a new process may reuse its pid
	if own && (id == m.id || m.id.Start == 0) {
		process.Close()
		return
	}
	m.logChange(slog.LevelInfo, "main process changed", "from", m.process.Pid(), "to", pid)
	unknown := launching(m.run)
	m.replace(process, id)
	if unknown {
		m.findGroup()
	}
	m.signalNewMain()
}

// replace makes process the main process. The previous one becomes an ordinary process of the tree,
// which superd reaps like an orphan.
func (m *mainProcess) replace(process host.Process, id pidfd.Identity) {
	in := m.run.in
	if m.group == 0 {
		m.group = int32(m.process.Pid()) // of the first main process
	}
	in.Env.Reaper.DropChild(m.process)
	m.pidfdScope.Close()
	in.Env.Reaper.Schedule() // reaps it if it has ended
	adopted := in.Env.Reaper.Adopt(process, id)
	m.set(adopted, id, in.Env.FDs.StoreProcess(adopted))
	if launching(m.run) {
		m.launch, m.group = launched, 0 // what was the command's is not that of the program
		if w := m.run.readiness; w != nil {
			m.run.awaitReady(w.Deadline())
		}
	}
	in.Env.Owner.Changed()
}

// findGroup finds the process group of the main process of a forking program.
func (m *mainProcess) findGroup() {
	in, process := m.run.in, m.process
	in.Tree.Look(func(found []host.Member) {
		for _, member := range found {
			if m.process == process && member.Process.Pid() == process.Pid() {
				m.group = int32(member.Group)
				in.Save()
			}
			member.Process.Close()
		}
	})
}

// logChange logs the result of MAINPID=, within the program's limit.
func (m *mainProcess) logChange(level slog.Level, message string, attrs ...any) {
	in := m.run.in
	suppressed, ok := in.ownProblems().mainPidLog.allow(in.Env.Loop.Now())
	if !ok {
		return
	}
	if suppressed > 0 {
		attrs = append(attrs, "not_logged_before", suppressed)
	}
	attrs = append([]any{"instance", in.Name}, attrs...)
	in.Env.Log.Log(context.Background(), level, message, attrs...)
}

// signalNewMain sends the new main process the stop signal or SIGKILL that the previous one got.
// The stop signal may reach it twice, once through its group.
func (m *mainProcess) signalNewMain() {
	stop := &m.run.stop
	switch in := m.run.in; in.Machine.State() {
	case fsm.Stopping:
		if m.run.beside.StopState() == "" {
			stop.signal()
		}
	case fsm.Killing:
		in.clearUnkillable()
		stop.kill()
		stop.armKill()
	}
}
