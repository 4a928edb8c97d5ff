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

// signalStop sends the program the stop signal. A logger that does not start again gets the end of
// its input instead.
func (in *instance) signalStop() {
	if in.isLogger() && in.neverStartsAgain() {
		in.endInput()
		in.sendContinue()
		return
	}
	in.sendStop(in.run.program.StopSignal)
}

// sendStop sends a signal to the processes that kill_mode names for a stop, then SIGCONT so that
// stopped ones handle it.
func (in *instance) sendStop(sig syscall.Signal) {
	if in.run.program.KillMode.StopsGroup() {
		in.signalGroup(sig)
	} else {
		in.signalMain(sig)
	}
	in.sendContinue()
}

// sendContinue sends SIGCONT to all processes that may be stopped. Even if only the main process
// gets the stop signal, it may wait for others, so these get SIGCONT, too.
func (in *instance) sendContinue() {
	if in.run.program.KillMode == config.KillProcess {
		in.signalMain(unix.SIGCONT)
	} else {
		in.signalGroup(unix.SIGCONT)
	}
}

func (in *instance) signalKill() {
	r := in.run
	r.stopTimer.Stop() // a hurried stop does not wait for it
	in.sup.log.Warn("stop_timeout is over, killing", "instance", in.name, "pid", r.process.Pid(), "stop_timeout", r.program.StopTimeout)
	if r.program.KillMode == config.KillProcess {
		in.signalMain(unix.SIGKILL)
		return
	}
	if r.program.KillMode.KillsTree() {
		in.killTree()
	}
	in.signalGroup(unix.SIGKILL)
}

func (in *instance) killTree() {
	if err := in.tree.Kill(); err != nil {
		in.sup.log.Error("process tree not killed at once", "instance", in.name, "error", err)
	}
}

// signalGroup signals the process group of the main process. A process that became the main one by
// MAINPID= may lead no group: then it alone is signalled, and the others get their signal in the
// teardown.
func (in *instance) signalGroup(sig syscall.Signal) {
	err := in.run.process.SignalGroup(sig)
	if errors.Is(err, pidfd.ErrGone) {
		in.signalMain(sig)
		return
	}
	in.logUnsent(sig, err)
}

// signalMain signals the main process alone.
func (in *instance) signalMain(sig syscall.Signal) { in.logUnsent(sig, in.run.process.Signal(sig)) }

func (in *instance) logUnsent(sig syscall.Signal, err error) {
	if err != nil && !errors.Is(err, pidfd.ErrGone) {
		in.sup.log.Error("signal not sent", "instance", in.name, "pid", in.run.process.Pid(),
			"signal", signalName(sig), "error", err)
	}
}

// reportUnkillable reports processes that survived SIGKILL, and their wait states.
func (in *instance) reportUnkillable(pids ...int) {
	var text []string
	for _, pid := range pids {
		text = append(text, fmt.Sprintf("process %d survives SIGKILL: state %s",
			pid, in.sup.host.WaitsIn(pid).Text))
	}
	in.markUnkillable(strings.Join(text, "; "))
}

// markUnkillable records that the instance has an unkillable process. A shutdown does not wait for
// it.
func (in *instance) markUnkillable(why string) {
	in.clearUnkillable()
	in.sup.registry.setUnkillable(in, why)
	in.sup.log.Error("program is unkillable", "instance", in.name, "reason", why)
	in.publish()
	in.sup.subscriptions.changed()
	in.answerWaiters()
	in.sup.shutdown.proceed()
}

func (in *instance) clearUnkillable() {
	if in.unkillable != "" {
		in.sup.registry.setUnkillable(in, "")
		in.publish()
	}
}
