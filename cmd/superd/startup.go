//go:build linux

package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"superd/alerts/service"
	"superd/cmd/superd/crashlog"
	"superd/cmd/superd/portwatch"
	"superd/config"
	"superd/config/places"
	"superd/control"
	"superd/internal/gcpacer"
	"superd/internal/logqueue"
	"superd/internal/terminal"
	"superd/keeper"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/linux"
	"superd/procs/rundir"
)

// A step is one part of the start of the supervisor.
type step struct {
	do   func(*startup) error
	undo func(*startup) // called when a later step has failed, or at the end; nil: nothing to undo
}

// startSteps is the start of the supervisor, in its order. Read backwards, it is what remains to do
// after [startup.finish].
var startSteps = []step{
	{do: (*startup).prepareProcess},
	{do: (*startup).findRuntimeDir},
	{do: (*startup).openMessages, undo: (*startup).closeMessages},
	{do: (*startup).lockRuntimeDir, undo: (*startup).unlockRuntimeDir},
	{do: (*startup).openJournal, undo: (*startup).closeJournal},
	{do: (*startup).chooseConfig},
	{do: (*startup).prepareLogDir},
	{do: (*startup).listen, undo: (*startup).closeListener},
	{do: (*startup).openCrashLog},
	{do: (*startup).openLoop},
	{do: (*startup).openEvents, undo: (*startup).closeEvents},
	{do: (*startup).openAlerts, undo: (*startup).closeAlerts},
	{do: (*startup).collectOptions},
	{do: (*startup).storeListener, undo: (*startup).closeStoredListener},
	{do: (*startup).openKernel},
	{do: (*startup).awaitThreads},
	{do: (*startup).recoverPrograms},
	{do: (*startup).watch},
	{do: (*startup).startPrograms},
	{do: (*startup).announceRunning},
}

// runDaemon runs the supervisor: the steps of its start, its loop, its orderly end.
func (l launch) runDaemon() error {
	s := &startup{launch: l, daemon: &daemon{
		terminal:   l.terminal,
		noCgroup:   l.flags.cgroups == "never",
		link:       l.link,
		caught:     l.caught,
		openFiles:  l.openFiles,
		watchdog:   l.flags.watchdog,
		endServing: func() error { return nil },
	}}
	defer s.undo()
	if err := s.take(startSteps); err != nil {
		return err
	}
	return s.finish(s.daemon.loop.Run())
}

// finish ends what the loop has begun. The steps are undone after that. err is the error of the
// loop.
func (s *startup) finish(err error) error {
	s.dir.KeepFiles(!s.daemon.ended)
	s.dir.KeepJournal(s.daemon.supervisor.LeavesRecords())
	s.awaitLogFiles()
	s.removeCrashLog()
	s.closeAlerts()
	s.closeEvents() // before the server ends, so that clients that follow events see the last ones
	s.awaitShown()
	if err := errors.Join(err, s.daemon.endServing()); err != nil {
		return err
	}
	return statusError(s.daemon.supervisor.ExitStatus(), nil)
}

// A startup has the data that the steps share. The fields are in the order in which they are set.
type startup struct {
	launch
	daemon *daemon
	undos  []func(*startup) // of the steps taken, in their order

	pacer          *gcpacer.Pacer
	endBoost       func() // ends the boost of the start
	threadsReady   chan error
	resumed        bool // this supervisor continues for one that did not end in order
	conf           *config.Config
	runtimeDir     string // as configured; dir.Path has no symbolic links
	dir            *rundir.Dir
	recovered      *recoveredState
	logDir         string
	listener       *net.UnixListener
	removeCrashLog func()
	store          *logs.Store
	options        procs.Options
	storedListener int // descriptor
	messagesClosed sync.Once
}

// take takes the steps in order, up to the first that fails.
func (s *startup) take(steps []step) error {
	for _, step := range steps {
		if err := step.do(s); err != nil {
			return err
		}
		if step.undo != nil {
			s.undos = append(s.undos, step.undo)
		}
	}
	return nil
}

// undo undoes the steps taken, the last one first.
func (s *startup) undo() {
	for _, undo := range slices.Backward(s.undos) {
		undo(s)
	}
}

// prepareProcess starts slow preparations in the background; awaitThreads waits for the threads.
func (s *startup) prepareProcess() error {
	s.pacer = gcpacer.NewPacer(heapGrowth, nil)
	s.endBoost = s.pacer.Boost()
	go pidfd.MakeRoom(reservedFDs) // nothing to do if the keeper has started this process
	s.threadsReady = make(chan error, 1)
	go func() { s.threadsReady <- prepareThreads() }()
	return nil
}

// findRuntimeDir finds the configuration file and the runtime directory: the one of the supervisor
// that this one replaces, or else the one that the configuration names.
func (s *startup) findRuntimeDir() error {
	path, err := places.Find(s.flags.config, os.Getenv, os.Geteuid())
	if err != nil {
		return usageError{err}
	}
	s.daemon.configPath = path
	inherited, resumes := s.link.RuntimeDir(places.RuntimeDir(s.flags.runtimeDir, nil, os.Getenv, os.Geteuid()))
	s.resumed = resumes || s.link.Resumes()
	if resumes {
		s.runtimeDir = inherited
		return nil
	}
	if s.conf, err = loadConfig(path, s.flags.strict); err != nil {
		return err
	}
	named := places.RuntimeDir(s.flags.runtimeDir, s.conf, os.Getenv, os.Geteuid())
	s.runtimeDir, err = filepath.Abs(named)
	return err
}

func (s *startup) openMessages() error {
	s.daemon.messages = logqueue.New(s.stderr, logQueue)
	s.daemon.log = s.logger(s.daemon.messages)
	return nil
}

// closeMessages waits until superd's own messages are written. A second call does nothing: it would
// wait again for a reader that hangs.
func (s *startup) closeMessages() {
	s.messagesClosed.Do(func() { s.daemon.messages.Close(finalWriteTimeout) })
}

func (s *startup) lockRuntimeDir() (err error) {
	s.dir, err = rundir.Open(s.runtimeDir, s.link.Pid(), s.resumed, s.daemon.log)
	if err != nil {
		return err
	}
	s.dir.KeepFiles(s.dir.Unclean) // programs of the predecessor may live
	s.daemon.runtimeDir, s.daemon.lockFD = s.dir.Path, s.dir.LockFD()
	return nil
}

// unlockRuntimeDir gives up the directory, so that a successor may have it. All messages of this
// superd are written before.
func (s *startup) unlockRuntimeDir() {
	s.closeMessages()
	s.dir.Close()
}

func (s *startup) openJournal() (err error) {
	s.recovered, err = recoverFrom(s.dir, s.link.Pid(), s.conf, s.daemon.log)
	if err != nil {
		return err
	}
	s.daemon.journal = s.recovered.journal
	return nil
}

func (s *startup) closeJournal() { s.daemon.journal.Close(finalWriteTimeout) }

// chooseConfig prefers the configuration that was in force, which the journal has, to the file.
func (s *startup) chooseConfig() (err error) {
	if inForce := s.recovered.snapshot.Config(); s.resumed && inForce != nil {
		s.conf = inForce
	}
	if s.conf == nil {
		s.conf, err = loadConfig(s.daemon.configPath, false)
	}
	return err
}

// prepareLogDir makes the log directory. A superd that resumes does not wait for it and does not
// fail: programs live and need a supervisor, and the file system of the directory may hang.
func (s *startup) prepareLogDir() error {
	s.logDir = places.LogDir(s.conf, s.runtimeDir, os.Geteuid())
	if !s.conf.LogsInto(s.logDir) {
		return nil
	}
	if !s.resumed {
		return rundir.PrepareLogDir(s.logDir)
	}
	go func() {
		if err := rundir.PrepareLogDir(s.logDir); err != nil {
			s.daemon.log.Warn("log directory not prepared", "error", err)
		}
	}()
	return nil
}

func (s *startup) listen() (err error) {
	s.listener, err = listen(s.link, filepath.Join(s.dir.Path, control.SocketName))
	return err
}

func (s *startup) closeListener() { s.listener.Close() }

// openCrashLog has no undo: an orderly end removes the file, all others leave it.
func (s *startup) openCrashLog() (err error) {
	s.removeCrashLog, err = crashlog.Open(s.dir.Path, s.daemon.log, s.daemon.messages.Flush)
	return err
}

// openLoop has no undo: the process ends soon after the loop.
func (s *startup) openLoop() (err error) {
	s.daemon.loop, err = loop.New()
	return err
}

func (s *startup) openEvents() error {
	s.daemon.events = eventlog.Open(s.dir.Path, eventlog.MaxSize, s.daemon.log)
	s.daemon.ports = portwatch.New(s.dir.Path, s.daemon.log)
	s.daemon.events.OnExit(s.daemon.ports.OnExit)
	return nil
}

func (s *startup) closeEvents() { s.daemon.events.Close(finalWriteTimeout) }

func (s *startup) openAlerts() error {
	d := s.daemon
	machine, _ := os.Hostname() // collectOptions logs the error
	d.alerts = service.New(service.Options{
		RuntimeDir: s.dir.Path, Machine: machine, Version: version, Events: d.events, Log: d.log, Loop: d.loop,
		Reserve: reserveMore(d.log),
	})
	return nil
}

func (s *startup) closeAlerts() { s.daemon.alerts.Close(finalWriteTimeout) }

// collectOptions collects the options of the supervisor.
func (s *startup) collectOptions() (err error) {
	d := s.daemon
	d.gc = newGCPolicy(d.loop.Root(), s.pacer, s.endBoost)
	s.store = logs.NewStore(d.loop, d.log)
	s.options = procs.Options{
		Loop:    d.loop,
		Store:   s.store,
		Log:     s.logger(d.messages.Batched(d.writeMessages)),
		Events:  d.events,
		OnWrite: d.messages.Flush,
		Config:  s.conf,
		Load: func(inForce *config.Config, reading func(string)) (*config.Config, error) {
			return config.LoadAfter(d.configPath, inForce, reading)
		},
		Activated: func(c *config.Config) {
			d.access.Store(&c.Control)
			d.compat.Want(c.Compat.SupervisorSocket)
			d.alerts.Activated(c)
			d.ports.Activated(c)
		},
		Paths: procs.Paths{
			RuntimeDir: s.dir.Path,
			FIFODir:    s.dir.FIFODir,
			NotifyDir:  s.dir.NotifyDir,
			NotifyKey:  s.dir.NotifyKey,
			LogDir:     s.logDir,

			Directories: places.RootsOf(os.Getenv, os.Geteuid(), s.dir.Path, s.logDir),
		},
		Identity:    procs.Identity{Pid: os.Getpid(), BootID: s.recovered.boot},
		Environment: os.Environ(),
		Keeper:      fdKeeper{s.link, d.log},
		Journal:     d.journal,
		Predecessor: procs.Predecessor{
			Snapshot:  s.recovered.snapshot,
			StoredFDs: storedFDs(s.link),
			CleanEnd:  !s.dir.Unclean,
			Resumed:   s.resumed,
		},
	}
	if s.options.Identity.Machine, err = os.Hostname(); err != nil {
		d.log.Warn("schedule_jitter does not depend on the machine", "error", err)
	}
	if s.show {
		s.showLines()
	}
	return nil
}

// showLines makes the store show the lines of programs on standard output.
func (s *startup) showLines() {
	output := terminal.Detect(s.stdout, os.Getenv)
	// Programs in development are those of whoever reads their lines
	output.Coloured = output.Colour && s.flags.endWithTerminal
	printer := terminal.NewLinePrinter(s.store.BetweenRecords(s.stdout), output)
	s.store.ShowOn(&logs.Display{
		Expect: printer.Expect,
		Open:   func(name string) logs.LineWriter { return printer.Program(name) },
	})
}

func (s *startup) storeListener() (err error) {
	s.storedListener, err = storeListener(s.link, s.listener)
	return err
}

func (s *startup) closeStoredListener() { unix.Close(s.storedListener) }

func (s *startup) openKernel() (err error) {
	d := s.daemon
	d.kernel, err = linux.New(d.loop, linux.Options{
		RuntimeDir:  s.options.Paths.RuntimeDir,
		FIFODir:     s.options.Paths.FIFODir,
		LockFD:      d.lockFD,
		Log:         s.options.Log,
		KeeperPid:   d.link.Pid(),
		HadChildren: d.link.HadChildren(),
		NoCgroup:    d.noCgroup,
		OpenFiles:   d.openFiles,
		Crowd:       d.gc.onStartQueue,
		SIGCHLD:     d.caught,
	})
	s.options.Host = d.kernel
	return err
}

// awaitThreads waits for the threads that recovery uses and that programs could leave no room for.
func (s *startup) awaitThreads() error {
	if err := <-s.threadsReady; err != nil {
		s.daemon.log.Warn("a limit of processes may end superd", "error", err)
	}
	return nil
}

// recoverPrograms makes the supervisor, which adopts the programs that its predecessor started.
func (s *startup) recoverPrograms() error {
	d := s.daemon
	if _, err := crand.Read(s.options.Seed[:]); err != nil {
		return fmt.Errorf("draw a seed: %w", err)
	}
	s.options.Notify = shutdownNotifier{d.link, d.loop.Root(), d.gc.beginBoost}
	if period, err := sddaemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		d.loop.Root().Every(period/2, d.link.Watchdog)
	}
	d.supervisor = procs.New(s.options)
	d.alerts.Begin(d.supervisor, d.kernel.OpenText)
	return d.supervisor.Adopt()
}

// watch adds to the loop what wakes superd: signals, its terminal, its keeper.
func (s *startup) watch() error {
	d := s.daemon
	if err := d.caught.Watch(d.loop.Root(), d.onSignal); err != nil {
		return err
	}
	if err := d.terminal.Watch(d.loop.Root()); err != nil {
		return err
	}
	return d.link.Watch(d.loop.Root(), d.watchdog, keeper.Listener{
		Signal: d.onSignal,
		Stop:   d.onStopBeforeStart,
		Exit:   func(e keeper.Exit) { d.supervisor.OnStoredExit(storedExit(e)) },
		Gone:   d.becomeKeeper,
	})
}

// startPrograms posts the start of the programs and of the control socket's server: the loop, which
// does not run yet, begins with them.
func (s *startup) startPrograms() error {
	d, conf, store, listener := s.daemon, s.conf, s.store, s.listener
	version := d.version() // here, not on the loop
	d.log.Info("superd started", "pid", os.Getpid(), "configuration", d.configPath,
		"runtime_dir", d.runtimeDir, "log_dir", s.logDir)
	d.loop.Post(func() {
		for _, mistake := range conf.Errors {
			d.log.Error("mistake in configuration", "at", mistake.Error())
		}
		for _, warning := range conf.Warnings {
			d.log.Warn("warning in configuration", "at", warning.Error())
		}
		d.supervisor.Start(func() {
			d.ended = true
			// Announced now: if superd is killed in the rest of its end, it is not started again.
			// It counts when this process has ended.
			d.link.Announce(d.supervisor.ExitStatus())
			store.PrepareExit()
			d.alerts.EndCommands(d.loop.Stop)
		})
		d.gc.releaseLater()
		if d.link.Resumes() { // programs have been adopted: systemd need not wait for starts
			d.link.Send(sddaemon.SdNotifyReady)
		}
		// While the first programs are spawned. Requests are answered after the start.
		d.serve(listener, version)
	})
	return nil
}

// announceRunning sets the title of the process and stores the runtime directory for a successor.
// It frees what only the start needed.
func (s *startup) announceRunning() error {
	s.dir.KeepFiles(true)
	keeper.SetTitle(keeper.SupervisorTitle, s.dir.Path)
	if err := s.link.StoreRuntimeDir(s.dir.Path); err != nil {
		s.daemon.log.Warn("runtime directory not stored: a successor starts from the "+
			"configuration file", "error", err)
	}
	s.conf, s.recovered, s.options = nil, nil, procs.Options{}
	return nil
}

// awaitLogFiles waits until the log files are closed.
func (s *startup) awaitLogFiles() {
	ctx, cancel := context.WithTimeout(context.Background(), finalWriteTimeout)
	defer cancel()
	if err := s.store.Wait(ctx); err != nil {
		s.daemon.log.Warn("log files not closed: a file system does not respond",
			"waited", finalWriteTimeout)
	}
}

// awaitShown waits until the lines of programs are shown. What a terminal that hangs does not show
// is in the log files.
func (s *startup) awaitShown() {
	ctx, cancel := context.WithTimeout(context.Background(), finalWriteTimeout)
	defer cancel()
	_ = s.store.AwaitShown(ctx)
}
