package hosttest

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"superd/config"
	"superd/pidfd"
)

// launch makes the process of a forking program start its main process and end, as drawn.
func (p *Process) launch(program *config.Program) {
	k := p.k
	p.isLauncher, k.launchers[p.Instance] = true, p
	if k.chance(k.Mix.NoLaunch / 3) {
		return // it never ends
	}
	p.scope.After(k.upTo(k.Mix.SlowLaunch), func() {
		exit := pidfd.Exit{Known: true}
		switch {
		case k.chance(k.Mix.NoLaunch / 3):
			exit.Code = 1
		case k.chance(k.Mix.NoLaunch / 3): // it leaves no process
		default:
			p.daemonize(program.PIDFile)
		}
		p.scope.After(k.upTo(k.Mix.SlowLaunch), func() { p.End(exit) })
	})
}

// daemonize forks the main process of a forking program, which writes its pid file late, or never,
// or writes a foreign pid first.
func (p *Process) daemonize(pidFile string) {
	k := p.k
	pidFile = strings.ReplaceAll(pidFile, "${SUPERD_INSTANCE}", p.Instance)
	main := p.ForkSuccessor()
	main.Reparented, main.notifies = p.Reparented, p.notifies
	main.becomeReady()
	main.ping()
	main.scheduleHandover()
	if pidFile == "" || k.chance(k.Mix.NoPIDFile) {
		return
	}
	if k.chance(0.2) {
		k.PIDFiles[pidFile] = k.rng.IntN(10)
	}
	main.scope.After(k.upTo(k.Mix.SlowLaunch), func() { k.PIDFiles[pidFile] = main.Pid })
}

// ReadPIDFile implements [host.Host].
func (k *Kernel) ReadPIDFile(path, _ string, done func(pid int, err error)) (cancel func()) {
	scope := k.session.Child()
	if k.PIDFilesHang {
		return scope.Close
	}
	scope.After(k.upTo(10*time.Millisecond), func() {
		scope.Close()
		switch pid, exists := k.PIDFiles[path]; {
		case !exists:
			done(0, fs.ErrNotExist)
		case pid == 0:
			done(0, errors.New("it is empty"))
		default:
			done(pid, nil)
		}
	})
	return scope.Close
}

// IsCommand reports whether the process is the command of a forking program, whose main process is
// another one.
func (p *Process) IsCommand() bool { return p.isLauncher }

// mayBeMain reports whether the process may be the main process of a forking program whose command
// has ended, and whose main process superd has not found.
func (k *Kernel) mayBeMain(p *Process) bool {
	launcher := k.launchers[p.Instance]
	return launcher != nil && launcher.Zombie && launcher.foundBy != k.session && p.start >= launcher.start
}

// mainOpened makes a process that superd opens the expected main process, if that of its run is a
// launcher that has ended.
func (k *Kernel) mainOpened(p *Process) {
	if launcher := k.launchers[p.Instance]; launcher != nil && launcher != p {
		launcher.foundBy = k.session // a successor may not have its record
	}
	if main := k.mains[p.Run]; main != nil && main.isLauncher && main.Zombie && main != p {
		k.setMain(p.Run, p)
	}
}

// parentPid returns the pid of the parent of the process; 1 for superd and the keeper.
func (p *Process) parentPid() int {
	if p.parent == nil {
		return 1
	}
	return p.parent.Pid
}
