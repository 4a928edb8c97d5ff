package instance

import (
	"superd/config"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/instance/launch"
	"superd/procs/snapshot"
)

// A launchState is what is known of the main process of a forking program. Until it is known, the
// process of the command counts as the main process.
type launchState uint8

const (
	commandRuns  launchState = iota
	commandEnded             // with success, and is reaped
	launchFailed
	launched
)

func (l launchState) snapshot() snapshot.Launch {
	switch l {
	case commandEnded, launchFailed:
		return snapshot.LaunchSearched
	case launched:
		return snapshot.LaunchFound
	default:
		return ""
	}
}

func restoreLaunch(v snapshot.Launch) launchState {
	switch v {
	case snapshot.LaunchSearched:
		return commandEnded
	case snapshot.LaunchFound:
		return launched
	}
	return commandRuns
}

// launching reports whether the main process of a forking program is not known yet.
func launching(r *run) bool {
	return r.program.Type == config.TypeForking && r.main.launch != launched
}

// mainUnknown reports whether any process that the run has started may be the main process.
func mainUnknown(r *run) bool { return launching(r) && r.main.id.Start != 0 }

// sparesAll reports whether the teardown of the run spares all processes by kill_mode.
func sparesAll(r *run) bool { return r.program.KillMode == config.KillProcess && !mainUnknown(r) }

// Spares reports whether the teardown spares a process by kill_mode: none that may be the main
// process.
func (p *port) Spares(m host.Member) bool {
	switch mode := p.program.KillMode; {
	case mode != config.KillGroup && mode != config.KillProcess:
		return false
	case mainUnknown((*run)(p)):
		return m.Start < p.main.id.Start
	default:
		return m.Group != int(p.main.group)
	}
}

// searchesMain reports whether the main process is searched, as the process that has ended is the
// command of a forking program. It begins the search when the command has ended with success. If
// nobody knows how it ended, what it left tells more than a failure would.
func (m *mainProcess) searchesMain(exit pidfd.Exit) bool {
	r := m.run
	switch {
	case !launching(r) || r.in.Machine.State() != fsm.Starting || m.launch == launchFailed:
		return false
	case m.launch == commandEnded:
		return true
	case exit.Known && !exit.Success():
		return false
	}
	m.launch = commandEnded
	if m.watch != nil {
		m.watch.Stop() // the pidfd stays readable
	}
	r.readiness.Extend(r.in.Env.Loop.Now() + launch.Pause) // the end may be known late
	r.readiness.SearchMain()
	r.in.Save()
	r.in.Env.Owner.Changed()
	return true
}

// endSearch ends the search for the main process, if there is one. The end of the command becomes
// that of the run, unless MAINPID= names the main process in the same turn. note says why none was
// found; or none.
func (m *mainProcess) endSearch(note fsm.Reason) {
	if m.launch != commandEnded || m.process == nil {
		return
	}
	m.launch = launchFailed
	process := m.process
	m.scope.Post(func() {
		if m.process != process {
			return
		}
		if note.Kind != fsm.ReasonNone {
			m.run.in.ownProblems().exitNote = note
		}
		m.reap(process)
	})
}

func (p *port) PIDFile() (path, user string, err error) {
	path, err = p.program.PIDFilePath(runVariables((*run)(p)))
	return path, p.program.User, err
}

func (p *port) Began() uint64 { return p.main.id.Start }

func (p *port) Launched(pid, group int) error {
	process, id, err := p.in.Env.Host.Open(p.in.Tree, pid)
	if err != nil {
		return err
	}
	p.in.Env.Log.Info("main process found", "instance", p.in.Name, "pid", pid)
	p.main.replace(process, id)
	p.main.group = int32(group)
	p.in.Save()
	return nil
}

func (p *port) LaunchFailed(why string) {
	p.main.endSearch(fsm.ReasonExitedBeforeReady.With(why))
}
