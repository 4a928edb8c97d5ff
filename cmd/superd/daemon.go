//go:build linux

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/alerts/service"
	"superd/cmd/superd/portwatch"
	"superd/compat/socket"
	"superd/config"
	"superd/control"
	"superd/control/server"
	"superd/internal/logqueue"
	"superd/keeper"
	"superd/keeper/fdstore"
	"superd/loop"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/host"
	"superd/procs/journal"
	"superd/procs/linux"
	"superd/procs/pty"
	"superd/signals"
)

// A daemon is a running superd: the supervisor, and what connects it to clients, keeper and
// signals.
type daemon struct {
	loop       *loop.Loop
	log        *slog.Logger
	terminal   *keeper.Terminal // of a superd without a keeper; nil: none
	configPath string
	access     atomic.Pointer[config.Control] // in force
	compat     socket.Socket
	runtimeDir string
	noCgroup   bool
	supervisor *procs.Supervisor
	endServing func() error // closes the control server; does nothing before the loop runs
	link       *keeper.Link
	caught     *signals.Caught
	kernel     *linux.Host
	openFiles  *unix.Rlimit // limit that superd was started with
	gc         *gcPolicy
	lockFD     int // of the runtime directory
	upgrading  bool
	watchdog   time.Duration
	journal    *journal.Journal
	events     *eventlog.Log
	ports      *portwatch.Watcher
	messages   *logqueue.Queue // superd's own messages
	ended      bool            // in order: the shutdown is complete
	alerts     *service.Service
}

// writeMessages is called when messages of the supervisor are queued. They are written with its
// next records.
func (d *daemon) writeMessages() {
	d.loop.Post(func() { d.supervisor.WriteSoon() })
}

// serve answers clients of the control socket.
func (d *daemon) serve(listener net.Listener, version control.Version) {
	s := server.New(server.Options{
		Post:       d.loop.Post,
		Supervisor: d.supervisor,
		Meter:      procs.NewMeter(d.supervisor),
		Events:     d.events,
		Log:        d.log,
		Version:    version,
		ConfigPath: d.configPath,
		UID:        os.Geteuid(),
		Access:     func() config.Control { return *d.access.Load() },
		TreeUsages: d.kernel.TreeUsages,
		Upgrade:    d.upgrade,
		WhyDown:    d.ports.Explain,
		Alerts:     d.alerts.Manager,
		ConfigOf:   func(names []string) ([]*config.Program, error) { return procs.ConfigOf(d.supervisor, names) },
		ResetFailed: func(names []string) ([]procs.CommandResult, error) {
			return procs.ResetFailed(d.supervisor, names)
		},
		Await: func(names []string, done func([]procs.CommandResult)) (cancel func(), err error) {
			return procs.Await(d.supervisor, names, done)
		},
		Enable: func(names []string, starts bool, done func([]procs.CommandResult, error)) (cancel func(), err error) {
			return procs.Enable(d.supervisor, names, starts, done)
		},
		Execute: func(name string, uid int, o procs.ExecuteOptions) (end func(), err error) {
			return procs.Execute(d.supervisor, name, uid, o)
		},
		Terminal: func(name string, uid int) (*pty.Terminal, string, error) {
			return procs.Terminal(d.supervisor, name, uid)
		},
	})
	d.compat.Begin(&socket.Serving{
		Log: d.log, Control: filepath.Join(d.runtimeDir, control.SocketName), Serve: s.ServeAs})
	d.endServing = func() error {
		d.compat.End()
		return s.Close()
	}
	go func() {
		if err := s.Serve(listener); err != nil {
			d.log.Error("control socket not served", "error", err)
		}
	}()
}

// listen listens on the control socket: on the stored one of the predecessor, if there is one.
// While no supervisor runs, clients can connect and wait.
func listen(link *keeper.Link, path string) (*net.UnixListener, error) {
	if fd := link.Take(keeper.ControlFile); fd >= 0 {
		if listener, err := server.Inherit(fd, path); err == nil {
			return listener, nil
		}
	}
	return server.Listen(path)
}

// storeListener stores the listening socket with the keeper. fd is the duplicate that is stored;
// the caller closes it at the end.
func storeListener(link *keeper.Link, listener *net.UnixListener) (fd int, err error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("store control socket: %w", err)
	}
	failed := raw.Control(func(own uintptr) {
		if fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = link.Store(keeper.ControlFile, fd)
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return -1, fmt.Errorf("store control socket: %w", err)
	}
	return fd, nil
}

// A shutdownNotifier extends systemd's stop time-out during a shutdown while the loop turns.
// Source: sd_notify(3), EXTEND_TIMEOUT_USEC.
type shutdownNotifier struct {
	*keeper.Link
	scope *loop.Scope
	boost func()
}

// Stopping implements [procs.Notifier].
func (s shutdownNotifier) Stopping() {
	s.boost()
	s.Link.Stopping()
	extend := func() { s.Send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (3 * extendPeriod).Microseconds())) }
	extend()
	s.scope.Every(extendPeriod, extend)
}

// An fdKeeper makes the link a [host.FDStore].
type fdKeeper struct {
	*keeper.Link
	log *slog.Logger
}

// Store implements [host.FDStore]. A failure is only logged: the descriptor is lost only if superd
// crashes.
func (o fdKeeper) Store(name string, fd int) {
	if err := o.Link.Store(name, fd); err != nil {
		o.log.Warn("descriptor not stored for the successor", "error", err)
	}
}

// storedFDs returns the descriptors and exits that the keeper has for this supervisor.
func storedFDs(link *keeper.Link) host.StoredFDs {
	stored := host.StoredFDs{Files: link.Files(), Given: map[string]string{}}
	for name := range stored.Files {
		if given, ok := fdstore.Given(name); ok {
			stored.Given[name] = given
		}
	}
	for _, e := range link.Exits() {
		stored.Exits = append(stored.Exits, storedExit(e))
	}
	return stored
}

func storedExit(e keeper.Exit) host.StoredExit {
	return host.StoredExit{Pid: e.Pid, Start: e.Start, Exit: e.Of()}
}

// version returns what the running superd reports about itself.
func (d *daemon) version() control.Version {
	v := ownVersion()
	if pid := d.link.Pid(); pid > 0 {
		v.KeeperPid = &pid
	}
	return v
}

// becomeKeeper replaces the keeper, which has ended, by this process.
func (d *daemon) becomeKeeper() {
	d.log.Warn("the keeper has ended: superd replaces it and starts another supervisor", "keeper", d.link.Pid())
	d.execKeeper(d.loop.Now() + writeTimeout)
}

// execKeeper executes the keeper in this process. It waits until journal, events and messages are
// written, at most up to the time until. If that fails, superd continues without a keeper.
func (d *daemon) execKeeper(until time.Duration) {
	d.supervisor.Write()
	late := d.loop.Now() >= until
	retry := func() { d.loop.Root().After(retryPause, func() { d.execKeeper(until) }) }
	if !late && !(d.journal.Idle() && d.events.Idle() && d.messages.Idle()) {
		retry()
		return
	}
	err := d.link.BecomeKeeper(os.Args, os.Environ())
	if !late && errors.Is(err, keeper.ErrSignalled) {
		retry()
		return
	}
	d.log.Error("superd continues without a keeper", "error", err)
}

// onStopBeforeStart shuts superd down for a signal that arrived before this supervisor was started.
// It does not repeat a shutdown, which would kill the programs.
func (d *daemon) onStopBeforeStart(sig syscall.Signal) {
	if !d.supervisor.Info().ShuttingDown {
		why := unix.SignalName(sig)
		if sig == unix.SIGHUP {
			why = "the terminal was closed"
		}
		d.supervisor.Shutdown(why)
	}
}

func (d *daemon) onSignal(sig syscall.Signal) {
	switch sig {
	case unix.SIGTERM, unix.SIGINT:
		begins := !d.supervisor.Info().ShuttingDown
		d.supervisor.Shutdown(unix.SignalName(sig))
		if begins && sig == unix.SIGINT { // probably from a terminal
			d.log.Info("another Ctrl-C, a second or more after the first, kills programs that still run")
		}
	case unix.SIGHUP:
		if d.terminal.Hangup(d.loop.Now()) {
			if !d.terminal.Outlived {
				d.supervisor.Shutdown("the terminal was closed")
			}
			return
		}
		// The supervisor logs the result.
		d.supervisor.Reload(false, func(procs.ReloadResult, error) {})
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
		d.supervisor.ScheduleReap()
	case unix.SIGPIPE: // superd's output has no reader any more: no reason to end
	}
}
