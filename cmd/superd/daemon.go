package main

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"superd/control"
	"superd/control/server"
	"superd/keeper"
	"superd/logs"
	"superd/loop"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/journal"
	"superd/signals"
)

// A daemon is a running superd: the supervisor with those who talk to it.
type daemon struct {
	loop       *loop.Loop
	log        *slog.Logger
	configPath string
	noCgroup   bool
	supervisor *procs.Supervisor
	endServing func() error // of control; not before the loop runs
	link       *keeper.Link
	caught     *signals.Caught
	kernel     *procs.Kernel
	openFiles  *unix.Rlimit // what superd was started with
	pace       *pace
	lockFD     int // of the runtime directory
	upgrading  bool
	watchdog   time.Duration
	journal    *journal.Journal
	events     *eventlog.Log
	messages   *logs.Queue // superd's own
	ended      bool        // in good order
}

// passMessages has the supervisor's messages, which wait for others, written with its records.
func (d *daemon) passMessages() {
	d.loop.Post(func() { d.supervisor.WriteSoon() })
}

// start puts everything on the loop, which does not run yet.
func (d *daemon) start(options procs.Options, listener net.Listener) error {
	kernel, err := procs.NewKernel(d.loop, procs.KernelOptions{RuntimeDir: options.RuntimeDir, LockFD: d.lockFD, Log: options.Log, KeeperPid: d.link.Pid(), NoCgroup: d.noCgroup, OpenFiles: d.openFiles, Crowd: d.pace.crowd, SIGCHLD: d.caught})
	if err != nil {
		return err
	}
	d.kernel, options.System = kernel, kernel
	if _, err := crand.Read(options.Seed[:]); err != nil {
		return fmt.Errorf("draw a seed: %w", err)
	}
	options.Notify = stopper{d.link, d.loop.Root(), d.pace.hurry}
	if period, err := sddaemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		d.loop.Root().Every(period/2, d.link.Watchdog)
	}
	d.supervisor = procs.New(options)
	if err := d.supervisor.Adopt(); err != nil {
		return err
	}
	if err := d.caught.Watch(d.loop.Root(), d.onSignal); err != nil {
		return err
	}
	err = d.link.Watch(d.loop.Root(), d.watchdog, keeper.Listener{
		Signal: d.onSignal,
		Exit:   func(e keeper.Exit) { d.supervisor.KeptExit(keptExit(e)) },
		Gone:   d.becomeKeeper,
	})
	if err != nil {
		return err
	}
	version := d.version() // it forks: not on the loop, nor beside births
	d.log.Info("superd runs", "pid", os.Getpid(), "configuration", d.configPath, "runtime_dir", options.RuntimeDir, "log_dir", options.LogDir)
	d.loop.Post(func() {
		for _, mistake := range options.Config.Errors {
			d.log.Error("mistake in configuration", "at", mistake.Error())
		}
		for _, warning := range options.Config.Warnings {
			d.log.Warn("doubtful in configuration", "at", warning.Error())
		}
		d.supervisor.Start(func() {
			d.ended = true
			// Now: killed in what is left to do, superd is not to be started again. It counts when this process has ended.
			d.link.Announce(d.supervisor.ExitStatus())
			options.Store.Leave()
			d.loop.Stop()
		})
		d.pace.rest()
		if d.link.Resumes() { // it has taken over what there was: nobody is to wait for starts
			d.link.Tell(sddaemon.SdNotifyReady)
		}
		d.serve(listener, version) // now, while the first programs are born; whoever asks is answered after the start
	})
	return nil
}

// serve has those answered who connect to the control socket.
func (d *daemon) serve(listener net.Listener, version control.Version) {
	s := server.New(server.Options{
		Post:       d.loop.Post,
		Supervisor: d.supervisor,
		Events:     d.events,
		Log:        d.log,
		Version:    version,
		UID:        os.Geteuid(),
		Upgrade:    d.upgrade,
	})
	d.endServing = s.Close
	go func() {
		if err := s.Serve(listener); err != nil {
			d.log.Error("control socket not served", "error", err)
		}
	}()
}

// controlFile is the name under which the listening socket is stored, so that clients wait while there is no superd for a moment.
const controlFile = "control"

// listen listens on the control socket: on the one that an earlier superd has left with the keeper, if there is one.
func listen(link *keeper.Link, path string) (*net.UnixListener, error) {
	if fd := link.Take(controlFile); fd >= 0 {
		if listener, err := server.Inherit(fd, path); err == nil {
			return listener, nil
		}
	}
	return server.Listen(path)
}

// storeListener has the listening socket kept, by a descriptor that stays open for as long.
func storeListener(link *keeper.Link, listener *net.UnixListener) (fd int, err error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("store control socket: %w", err)
	}
	failed := raw.Control(func(own uintptr) {
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = link.Store(controlFile, fd)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return -1, fmt.Errorf("store control socket: %w", err)
	}
	return fd, nil
}

// A stopper has systemd wait for as long as a shutdown takes, as long as the loop turns. Source: sd_notify(3), EXTEND_TIMEOUT_USEC.
type stopper struct {
	*keeper.Link
	scope *loop.Scope
	hurry func()
}

// Stopping implements [procs.Notifier].
func (s stopper) Stopping() {
	s.hurry()
	s.Link.Stopping()
	extend := func() { s.Tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (3 * extendPeriod).Microseconds())) }
	extend()
	s.scope.Every(extendPeriod, extend)
}

// outliving is the link as the supervisor sees it.
type outliving struct {
	*keeper.Link
	log *slog.Logger
}

// Store implements [procs.Keeper]. What is not stored is lost only when superd is.
func (o outliving) Store(name string, fd int) {
	if err := o.Link.Store(name, fd); err != nil {
		o.log.Warn("descriptor not kept for the next superd", "error", err)
	}
}

// inheritance is what the keeper has for this superd.
func inheritance(link *keeper.Link) procs.Inheritance {
	inherited := procs.Inheritance{Files: link.Files()}
	for _, e := range link.Exits() {
		inherited.Exits = append(inherited.Exits, keptExit(e))
	}
	return inherited
}

func keptExit(e keeper.Exit) procs.KeptExit {
	return procs.KeptExit{Pid: e.Pid, Start: e.Start, Exit: e.Of()}
}

// version is what the running superd tells of itself.
func (d *daemon) version() control.Version {
	v := ownVersion()
	if pid := d.link.Pid(); pid > 0 {
		v.KeeperPid = &pid
	}
	return v
}

// becomeKeeper takes the place of the keeper, which has ended. It returns only if it can't.
func (d *daemon) becomeKeeper() {
	d.log.Warn("the keeper has ended: superd takes its place and starts another supervisor", "keeper", d.link.Pid())
	d.takeRole(d.loop.Now() + writeTime)
}

// takeRole becomes the keeper when all that is known is written down, which is waited for until then.
func (d *daemon) takeRole(until time.Duration) {
	d.supervisor.Write()
	late := d.loop.Now() >= until
	again := func() { d.loop.Root().After(writePause, func() { d.takeRole(until) }) }
	if !late && !(d.journal.Idle() && d.events.Idle() && d.messages.Idle()) {
		again()
		return
	}
	err := d.link.TakeRole(os.Args, os.Environ())
	if !late && errors.Is(err, keeper.ErrSignalled) {
		again()
		return
	}
	d.log.Error("superd goes on without a keeper", "error", err)
}

func (d *daemon) onSignal(sig syscall.Signal) {
	switch sig {
	case unix.SIGTERM, unix.SIGINT:
		d.supervisor.Shutdown(unix.SignalName(sig))
	case unix.SIGHUP:
		d.supervisor.Reload(false, func(procs.Report, error) {}) // the supervisor logs what came of it
	case unix.SIGUSR1:
		d.supervisor.ReopenLogs()
	case unix.SIGUSR2:
		d.upgrade("", func(u server.Upgrade, err error) {
			if err != nil {
				d.log.Error("not upgraded", "error", err)
				return
			}
			u.Go()
		})
	case unix.SIGQUIT:
		d.supervisor.LogState()
	case unix.SIGCHLD:
		d.supervisor.Children()
	case unix.SIGPIPE: // whoever read superd's output has gone; the programs go on
	}
}
