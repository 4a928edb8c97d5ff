package single

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"
	"superd/internal/signame"
)

// A parent runs one command. It belongs to one goroutine: only that forwards signals and reaps, so
// no signal can reach a process that has got the pid of the command after its end.
type parent struct {
	options
	pid      int
	signals  chan syscall.Signal
	terminal bool             // standard input is a terminal that the command has got
	blocked  disposition.Mask // signals that the command blocks
	// Signals of each kind that are not forwarded: they follow from giving up the terminal
	skip map[syscall.Signal]int
}

// run runs the command and returns the exit status.
func (p *parent) run() (status int, err error) {
	runtime.LockOSThread() // the signal at the parent's death is one of a thread
	ignored, err := ignoredSignals()
	if err != nil {
		return statusFailed, err
	}
	if err := p.catch(); err != nil {
		return statusFailed, err
	}
	if err := p.prepare(); err != nil {
		return statusFailed, err
	}
	if err := p.spawn(ignored); err != nil {
		return statusFailed, err
	}
	_ = unix.Chdir("/") // so that no file system stays in use
	for sig := range p.signals {
		p.logf(mostVerbose, "Received %s", signame.Name(sig))
		switch {
		case sig == unix.SIGCHLD:
			if status, ended := p.reap(); ended {
				return status, nil
			}
		case p.skip[sig] > 0:
			p.skip[sig]--
			p.logf(mostVerbose, "%s is not forwarded: it follows from giving up the terminal", signame.Name(sig))
		default:
			p.forward(sig)
		}
	}
	return statusFailed, errors.New("no signals any more")
}

// catch receives all signals that can be caught. Those that are blocked are read from a queue of
// the kernel. The runtime of Go unblocks some when it starts: these come through it, each in a
// channel of its own, so that a burst of one kind does not drop another. To catch all in that way
// would take more time than the rest of the start. The runtime keeps SIGPROF for itself.
func (p *parent) catch() error {
	p.signals, p.skip = make(chan syscall.Signal), map[syscall.Signal]int{}
	queued, err := disposition.Blocked()
	if err != nil {
		return fmt.Errorf("read the signal mask: %w", err)
	}
	for sig := syscall.Signal(1); sig <= disposition.MaxSignal; sig++ {
		if queued.Has(sig) || slices.Contains(neverCaught, sig) {
			continue
		}
		c := make(chan os.Signal, 1)
		signal.Notify(c, sig)
		go func() {
			for range c {
				p.signals <- sig
			}
		}()
	}
	if p.style != styleDumbInit {
		// They stay blocked: messages are printed while the command has the terminal
		queued = queued.Without(unix.SIGTTIN, unix.SIGTTOU)
	}
	queue, err := disposition.OpenQueue(queued)
	if err != nil {
		return fmt.Errorf("catch signals: %w", err)
	}
	go p.readQueue(queue)
	return nil
}

// neverCaught are the signals that can't be caught, and those of real time that the runtime of Go
// and C libraries keep for themselves.
var neverCaught = []syscall.Signal{unix.SIGKILL, unix.SIGSTOP, 32, 33, 34}

// readQueue passes on the signals of a queue.
func (p *parent) readQueue(queue *os.File) {
	var read [16]unix.SignalfdSiginfo
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&read)), unsafe.Sizeof(read))
	for {
		n, err := queue.Read(buf)
		if err != nil {
			p.printf("FATAL", "signals are not received any more: %v", err)
			return
		}
		for _, info := range read[:n/int(unsafe.Sizeof(read[0]))] {
			p.signals <- syscall.Signal(info.Signo)
		}
	}
}

// prepare prepares this process for its children.
func (p *parent) prepare() error {
	if p.death != 0 {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(p.death), 0, 0, 0); err != nil {
			return fmt.Errorf("set the signal at the parent's death: %w", err)
		}
	}
	first := os.Getpid() == 1
	if p.subreaper || p.style == styleSuperd && !first {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become a subreaper: %w", err)
		}
	}
	if p.style == styleTini && !first && !isSubreaper() {
		p.printf("WARN", "this process is neither PID 1 nor a subreaper, so zombie reaping won't work: "+
			"add the flag -s, or set TINI_SUBREAPER")
	}
	if p.style == styleDumbInit && p.session {
		p.releaseTerminal()
	}
	return nil
}

func isSubreaper() bool {
	var is int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptrOf(&is), 0, 0, 0)
	return err == nil && is != 0
}

// releaseTerminal gives up the controlling terminal, for the session of the command. If this
// process leads the session, the kernel sends it SIGHUP and SIGCONT for that.
//
// Source: ioctl_tty(2), TIOCNOTTY.
func (p *parent) releaseTerminal() {
	if err := unix.IoctlSetInt(0, unix.TIOCNOTTY, 0); err != nil {
		return // there is none
	}
	p.terminal = true
	if sid, err := unix.Getsid(0); err == nil && sid == os.Getpid() {
		p.skip[unix.SIGHUP], p.skip[unix.SIGCONT] = 1, 1
	}
}

// spawn starts the command. It gets this process's standard input, output and error, and all other
// descriptors that this process has inherited.
func (p *parent) spawn(ignored []syscall.Signal) error {
	plan := childPlan{style: p.style, blocked: p.blocked, ignored: ignored, terminal: p.terminal}
	if p.style == styleDumbInit {
		plan.blocked = 0 // as dumb-init has it
	}
	attr := &syscall.SysProcAttr{Setsid: p.session}
	if p.style != styleDumbInit {
		attr.Setpgid = true
		// A job in the background must not take the terminal from others
		group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		p.terminal = err == nil && group == unix.Getpgrp()
		plan.terminal = p.terminal
	}
	pid, err := syscall.ForkExec("/proc/self/exe", plan.args(p.command), &syscall.ProcAttr{
		Env: p.env, Files: []uintptr{0, 1, 2}, Sys: attr,
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("start %s: %w: is /proc mounted?", p.command[0], err)
	} else if err != nil {
		return fmt.Errorf("start %s: %w", p.command[0], err)
	}
	p.pid = pid
	p.logf(2, "Spawned process %d for %s", pid, p.command[0])
	return nil
}

// forward sends a signal on to the command, rewritten if that is asked for.
func (p *parent) forward(sig syscall.Signal) {
	sends, rewritten := p.rewrite[sig]
	stops := p.style == styleDumbInit && (sig == unix.SIGTSTP || sig == unix.SIGTTIN || sig == unix.SIGTTOU)
	switch {
	case rewritten:
	case stops && p.session:
		sends = unix.SIGSTOP // nobody in its session could continue it
	default:
		sends = sig
	}
	if sig == unix.SIGCONT && p.terminal && p.style != styleDumbInit {
		p.giveTerminal()
	}
	if sends != 0 {
		p.send(sends)
	}
	if stops {
		p.stop()
	}
}

// send sends a signal to the command, or to its process group.
func (p *parent) send(sig syscall.Signal) {
	to := p.pid
	if p.group || p.session || sig == unix.SIGCONT && p.terminal {
		to = -p.pid
	}
	if err := unix.Kill(to, sig); err != nil {
		p.logf(2, "%s is not forwarded: %v", signame.Name(sig), err)
		return
	}
	p.logf(2, "Sent %s to %d", signame.Name(sig), to)
}

// stop stops this process, until it gets SIGCONT.
func (p *parent) stop() { _ = unix.Kill(os.Getpid(), unix.SIGSTOP) }

// giveTerminal makes the process group of the command the foreground one again, if this process is
// in the foreground: a shell has continued it by fg.
func (p *parent) giveTerminal() {
	if group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil && group == unix.Getpgrp() {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, p.pid)
	}
}

// reap reaps all children that have ended. It returns the exit status when the command has.
func (p *parent) reap() (status int, ended bool) {
	for {
		var how unix.WaitStatus
		pid, err := unix.Wait4(-1, &how, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case pid <= 0:
			return status, ended
		case how.Stopped():
			if pid == p.pid {
				p.stopWith()
			}
		case pid == p.pid:
			ended, status = true, p.exitStatus(how)
			if p.session {
				p.forward(unix.SIGTERM) // to what is left of its session
			}
		case p.warnReaps:
			p.logf(1, "Reaped zombie process with pid=%d", pid)
		}
	}
}

// stopWith stops this process when the terminal has stopped the command, as by Ctrl-Z, so that the
// shell gets its prompt. As PID 1 there is no shell.
func (p *parent) stopWith() {
	if p.style == styleDumbInit || !p.terminal || os.Getpid() == 1 {
		return
	}
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
	p.stop()
}

// exitStatus returns the exit status for the end of the command.
func (p *parent) exitStatus(how unix.WaitStatus) int {
	status := how.ExitStatus()
	if how.Signaled() {
		status = 128 + int(how.Signal())
	}
	p.logf(2, "The command has ended: exit status %d", status)
	if slices.Contains(p.expected, status) {
		return 0
	}
	return status
}

// logf prints a message if the verbosity is at least level.
func (p *parent) logf(level int, format string, args ...any) {
	if p.verbosity >= level {
		p.printf([...]string{"", "WARN", "INFO", "DEBUG"}[level], format, args...)
	}
}

// printf prints a message with its level. Standard output is the command's.
func (o *options) printf(level, format string, args ...any) {
	if level == "WARN" && o.verbosity < 1 {
		return
	}
	fmt.Fprintf(os.Stderr, "[%s %s (%d)] %s\n", level, o.name, os.Getpid(), fmt.Sprintf(format, args...))
}
