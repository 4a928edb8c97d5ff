package procs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/pidfd"
)

// signalStop sends the stop signal to the process group, then SIGCONT, so that a stopped process handles it. A logger that goes for good sees the end
// of its input instead.
func (in *instance) signalStop() {
	if in.isLogger() && in.goes() {
		in.endInput()
		in.send(unix.SIGCONT)
		return
	}
	in.send(in.run.program.StopSignal)
	in.send(unix.SIGCONT)
}

func (in *instance) signalKill() {
	r := in.run
	r.stopTimer.Stop() // somebody may have been in a hurry
	in.sup.log.Warn("stop time-out, killing", "instance", in.name, "pid", r.process.Pid(), "stop_timeout", r.program.StopTimeout)
	switch r.program.KillMode {
	case config.KillProcess:
		if err := r.process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
			in.sup.log.Error("process not killed", "instance", in.name, "pid", r.process.Pid(), "error", err)
		}
		return
	case config.KillTree:
		in.killTree()
	}
	in.send(unix.SIGKILL)
}

func (in *instance) killTree() {
	if err := in.tree.Kill(); err != nil {
		in.sup.log.Error("tree not killed at once", "instance", in.name, "error", err)
	}
}

// send signals the group of the main process, or, where that leads none, since it has taken the leader's place by MAINPID=, the process alone: whoever
// else is left gets the signal when that has ended.
func (in *instance) send(sig syscall.Signal) {
	err := in.run.process.SignalGroup(sig)
	if errors.Is(err, pidfd.ErrGone) {
		err = in.run.process.Signal(sig)
	}
	if err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.sup.log.Error("signal not sent", "instance", in.name, "pid", in.run.process.Pid(), "signal", signalName(sig), "error", err)
	}
}

// nameStuck says which processes SIGKILL did not end and what they wait in.
func (in *instance) nameStuck(pids ...int) {
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d does not die: it waits in %s", pid, in.sup.system.WaitsIn(pid)))
	}
	in.stick(strings.Join(text, "; "))
}

// stick notes that superd can do no more than wait. A shutdown goes on without the instance.
func (in *instance) stick(why string) {
	in.unstick()
	in.remark().stuck = why
	in.sup.stuck++
	in.sup.log.Error("program is stuck", "instance", in.name, "reason", why)
	in.publish()
	in.sup.changed()
	in.settleWaiters()
	in.sup.continueShutdown()
}

func (in *instance) unstick() {
	if in.stuck != "" {
		in.stuck = ""
		in.sup.stuck--
		in.publish()
	}
}
