package listener

import (
	"os"
	"os/exec"
	"syscall"
)

// statusUnknown is the exit status of a listener whose own can't be found out.
const statusUnknown = 255

// terminate asks a listener to end.
const terminate = syscall.SIGTERM

// forwarded are the signals that the listener gets in place of the process that runs it.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGCONT, syscall.SIGWINCH,
}

// stops are the signals by which a listener is usually stopped.
var stops = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}

// detach gives the listener a process group of its own, so that a signal to that of the program
// reaches it once: forwarded.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// statusOf returns an exit status as a shell has it.
func statusOf(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return signalStatus(w.Signal())
	}
	return state.ExitCode()
}

// signalStatus returns the exit status of a process that a signal has ended.
func signalStatus(sig os.Signal) int {
	number, _ := sig.(syscall.Signal)
	return 128 + int(number)
}
