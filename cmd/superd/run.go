package main

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/config"
	"superd/control"
	"superd/control/server"
	"superd/crashpoint"
	"superd/footprint"
	"superd/keeper"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/procs/journal"
	"superd/signals"
	"superd/terminal"
	"superd/threads"
)

const (
	logQueue       = 1 << 20 // bytes of superd's own messages that may wait for a slow reader
	keeperLogQueue = 16 << 10
	extendPeriod   = 10 * time.Second // of telling systemd that a shutdown goes on
	trialTime      = 10 * time.Second // for a new binary to be ready
	farewellTime   = 2 * time.Second  // for what is left to be shown when superd ends
)

type runFlags struct {
	config, runtimeDir, logLevel, output, cgroups string
	strict, noKeeper                              bool
	watchdog, restartMax                          time.Duration
}

func newRunCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the programs of the configuration until told to stop",
		Long: `Run starts the programs of the configuration, supervises them, and shows their output.

It is two processes: a supervisor, and above it a small keeper that starts another when the supervisor crashes or is
killed. The programs go on meanwhile.

SIGTERM and SIGINT (Ctrl-C) stop the programs and end superd, a second one does so at once. SIGHUP
reloads the configuration, SIGUSR1 reopens the log files, SIGUSR2 has superd go on with its binary as it is on disk now, SIGQUIT writes the state of everything to
superd's log.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startRun(flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.config, "config", "c", "", "configuration `file`")
	f.StringVar(&flags.runtimeDir, "runtime-dir", "", "`directory` of the control socket and the programs' pipes")
	f.StringVar(&flags.logLevel, "log-level", "info", "least `level` of superd's own messages: debug, info, warn or error")
	f.StringVar(&flags.output, "output", "auto", "show the programs' lines: `when` is auto (not under systemd, nor to /dev/null), always or never")
	f.StringVar(&flags.cgroups, "cgroups", "auto", "give each program a cgroup of its own: `when` is auto (where superd may make them) or never")
	f.BoolVar(&flags.strict, "strict", false, "refuse a configuration with any mistake, instead of failing only the programs concerned")
	f.BoolVar(&flags.noKeeper, "no-keeper", false, "be the supervisor alone, for a service manager such as systemd that starts it again and keeps its descriptors")
	f.DurationVar(&flags.watchdog, "watchdog", 30*time.Second, "`time` after which the keeper ends a supervisor that is stuck, 0: never")
	f.DurationVar(&flags.restartMax, "restart-max", 10*time.Second, "longest `pause` before the keeper starts a supervisor that crashes again and again")
	return cmd
}

// startRun is superd run: the keeper, or the supervisor where there is one already or is to be none.
func startRun(flags runFlags, stdout, stderr io.Writer) error {
	level, show, err := flags.parse(stdout)
	if err != nil {
		return usageError{err}
	}
	// A panic and SIGABRT, the watchdog's, must end superd by a signal: an exit status of 2 means wrong usage.
	debug.SetTraceback("crash")
	// From here to the very end these do not take their default action, whoever else watches them.
	caught, err := signals.Catch(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGQUIT, unix.SIGCHLD, unix.SIGPIPE)
	if err != nil {
		return err
	}
	if err := signals.ResetInherited(); err != nil {
		return fmt.Errorf("start with clean signals: %w", err)
	}
	openFiles, err := pidfd.InheritedOpenFiles()
	if err != nil {
		return err
	}
	link, err := keeper.Join(caught, &openFiles)
	if err != nil {
		return err
	}
	if err := signals.MarkInheritedCloexec(); err != nil {
		return fmt.Errorf("start with clean descriptors: %w", err)
	}
	if link.Pid() == 0 && !flags.noKeeper {
		return keeperWanted(func() error { return runKeeper(flags, level, link, caught, &openFiles, stderr) })
	}
	crashpoint.SetRole("supervisor")
	if link.Resumes() {
		link.ComesUp(flags.watchdog)
	}
	err = runDaemon(flags, level, show, link, caught, &openFiles, stdout, stderr)
	link.Announce(statusOf(err))
	link.Close(farewellTime)
	return err
}

// keeperWanted is returned when this process is to be the keeper: that waits until the command line, which takes more memory than the keeper,
// has been let go of.
type keeperWanted func() error

func (keeperWanted) Error() string { return "this process is to be the keeper" }

// runKeeper is the keeper.
func runKeeper(flags runFlags, level slog.Level, link *keeper.Link, caught *signals.Caught, openFiles *unix.Rlimit, stderr io.Writer) error {
	crashpoint.SetRole("keeper")
	keeper.StaySmall()
	queue := logs.NewQueue(stderr, keeperLogQueue)
	defer queue.Close(farewellTime)
	log := slog.New(newLogHandler(queue, terminal.Detect(stderr, os.Getenv), level))
	if err := threads.Reserve(keeperWaiting); err != nil {
		log.Warn("superd's keeper is not safe from a limit of processes", "error", err)
	}
	status, err := keeper.Run(keeper.Options{
		Log:        log,
		Args:       os.Args,
		Env:        os.Environ(),
		Signals:    caught,
		Files:      link.Files(),
		Manager:    link.Manager,
		OpenFiles:  openFiles,
		Watchdog:   flags.watchdog,
		RestartMax: flags.restartMax,
		Trial:      trialTime,
	})
	link.Close(farewellTime)
	if err == nil && status != 0 {
		err = exitStatus(status)
	}
	return err
}

// runDaemon is the supervisor.
func runDaemon(flags runFlags, level slog.Level, show bool, link *keeper.Link, caught *signals.Caught, openFiles *unix.Rlimit, stdout, stderr io.Writer) error {
	collect := footprint.Hurry()
	threadsReady := make(chan error, 1)
	go func() { threadsReady <- prepareThreads() }()
	path, err := config.Find(flags.config, os.Getenv, os.Geteuid())
	if err != nil {
		return usageError{err}
	}
	earlier, known := link.RuntimeDir()
	resumed := known || link.Resumes()
	var conf *config.Config // nil: the one that was in force
	runtimeDir := earlier
	if !known {
		if conf, err = loadConfig(path, flags.strict); err != nil {
			return err
		}
		if runtimeDir, err = filepath.Abs(config.RuntimeDir(flags.runtimeDir, conf, os.Getenv, os.Geteuid())); err != nil {
			return err
		}
	}
	dir, err := procs.OpenRuntimeDir(runtimeDir, link.Pid())
	if err != nil {
		return err
	}
	defer dir.Close()
	dir.Leave(dir.Unclean) // programs may live

	queue := logs.NewQueue(stderr, logQueue)
	defer queue.Close(farewellTime)
	log := slog.New(newLogHandler(queue, terminal.Detect(stderr, os.Getenv), level))

	left, err := recoverFrom(dir, conf, log)
	if err != nil {
		return err
	}
	defer left.journal.Close(farewellTime)
	if inForce := left.recovery.Config(); resumed && inForce != nil {
		conf = inForce
	}
	if conf == nil {
		if conf, err = loadConfig(path, false); err != nil {
			return err
		}
	}
	logDir := config.LogDir(conf, runtimeDir, os.Geteuid())
	if resumed { // programs live: they need a superd, whatever has become of the directory, and this may hang
		go func() {
			if err := procs.PrepareLogDir(logDir); err != nil {
				log.Warn("logs can't be written", "error", err)
			}
		}()
	} else if err := procs.PrepareLogDir(logDir); err != nil {
		return err
	}
	listener, err := listen(link, filepath.Join(dir.Path, control.SocketName))
	if err != nil {
		return err
	}
	defer listener.Close()

	if err := <-threadsReady; err != nil {
		log.Warn("superd is not safe from a limit of processes", "error", err)
	}

	forget, err := keepLastWords(dir.Path, log)
	if err != nil {
		return err
	}
	l, err := loop.New()
	if err != nil {
		return err
	}
	events := eventlog.Open(dir.Path, eventlog.MaxSize, log)
	defer events.Close(farewellTime)
	d := &daemon{
		loop: l, log: log, configPath: path, noCgroup: flags.cgroups == "never", link: link, caught: caught, openFiles: openFiles, collect: collect,
		watchdog: flags.watchdog,
		journal:  left.journal, events: events, messages: queue,
	}
	var printed sync.WaitGroup
	options := procs.Options{
		Loop:   l,
		Store:  logs.NewStore(l, log),
		Log:    log,
		Events: events,
		Config: conf,
		Load: func(inForce *config.Config, reading func(string)) (*config.Config, error) {
			return config.LoadAfter(path, inForce, reading)
		},
		RuntimeDir:  dir.Path,
		LogDir:      logDir,
		Environment: os.Environ(),
		Pid:         os.Getpid(),
		Journal:     left.journal,
		BootID:      left.boot,
		Recovery:    left.recovery,
		Resumed:     resumed,
		Keeper:      outliving{link, log},
		Inherited:   inheritance(link),
	}
	if options.Machine, err = os.Hostname(); err != nil {
		log.Warn("schedule_jitter is the same as on other machines", "error", err)
	}
	if show {
		printer := terminal.NewLinePrinter(stdout, terminal.Detect(stdout, os.Getenv))
		options.OnCapture = func(c *logs.Capture) func() {
			var all []*terminal.ProgramLines
			for _, which := range c.Apart() {
				lines := printer.Program(c.Name())
				all = append(all, lines)
				printed.Go(func() {
					defer lines.Close()
					// What can't be shown is still in the log file: a terminal that has gone is no failure.
					_ = c.FollowFromStart(context.Background(), which, lines)
				})
			}
			return func() {
				for _, lines := range all {
					go lines.EndRun() // showing may block
				}
			}
		}
	}
	stored, err := storeListener(link, listener)
	if err != nil {
		return err
	}
	defer unix.Close(stored)
	if err := d.start(options, listener); err != nil {
		return err
	}
	dir.Leave(true)
	if err := link.KeepRuntimeDir(dir.Path); err != nil {
		log.Warn("a superd that is started in the place of this one will begin with the configuration file", "error", err)
	}
	err = l.Run()
	dir.Leave(!d.ended)
	dir.KeepJournal(d.supervisor.Leaves())
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	if werr := options.Store.Wait(ctx); werr != nil {
		log.Warn("log files not closed: a file system does not answer", "waited", farewellTime)
	}
	forget()
	events.Close(farewellTime) // those who follow them see the last ones before the server ends
	waitFor(&printed, farewellTime)
	if err := errors.Join(err, d.server.Close()); err != nil {
		return err
	}
	if status := d.supervisor.ExitStatus(); status != 0 {
		return exitStatus(status)
	}
	return nil
}

// loadConfig loads the configuration; a mistake in it that keeps all of it from being used is one of usage.
func loadConfig(path string, strict bool) (*config.Config, error) {
	conf, err := config.Load(path)
	switch {
	case err != nil:
		return nil, usageError{err}
	case strict && len(conf.Errors) > 0:
		return nil, usageError{conf.Errors}
	}
	return conf, nil
}

// A daemon is a running superd: the supervisor with those who talk to it.
type daemon struct {
	loop       *loop.Loop
	log        *slog.Logger
	configPath string
	noCgroup   bool
	supervisor *procs.Supervisor
	server     *server.Server
	link       *keeper.Link
	caught     *signals.Caught
	kernel     *procs.Kernel
	openFiles  *unix.Rlimit // what superd was started with
	resting    *loop.Timer  // nil: not yet
	collect    func()       // has garbage collected as it was before superd hurried
	upgrading  bool
	watchdog   time.Duration
	journal    *journal.Journal
	events     *eventlog.Log
	messages   *logs.Queue // superd's own
	ended      bool        // in good order
}

// restPause is how long superd may have more to do after a burst of work.
const restPause = time.Second

// rest gives back the memory of a burst of work, once it is over.
func (d *daemon) rest() {
	if d.resting == nil {
		d.resting = d.loop.Root().After(restPause, func() {
			d.collect() // from now on as usual
			go footprint.Release()
		})
	} else {
		d.resting.Reset(restPause)
	}
}

// start puts everything on the loop, which does not run yet.
func (d *daemon) start(options procs.Options, listener net.Listener) error {
	kernel, err := procs.NewKernel(d.loop, procs.KernelOptions{RuntimeDir: options.RuntimeDir, Log: options.Log, KeeperPid: d.link.Pid(), NoCgroup: d.noCgroup, OpenFiles: d.openFiles, Rests: d.rest})
	if err != nil {
		return err
	}
	d.kernel, options.System = kernel, kernel
	if _, err := crand.Read(options.Seed[:]); err != nil {
		return fmt.Errorf("draw a seed: %w", err)
	}
	options.Notify = stopper{d.link, d.loop.Root()}
	if period, err := sddaemon.SdWatchdogEnabled(false); err == nil && period > 0 {
		d.loop.Root().Every(period/2, d.link.Watchdog)
	}
	d.supervisor = procs.New(options)
	if err := d.supervisor.Adopt(); err != nil {
		return err
	}
	d.server = server.New(server.Options{
		Post:       d.loop.Post,
		Supervisor: d.supervisor,
		Events:     options.Events,
		Log:        d.log,
		Version:    d.version(),
		UID:        os.Geteuid(),
		Upgrade:    d.upgrade,
	})
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
			d.loop.Stop()
		})
		d.rest()
		if d.link.Resumes() { // it has taken over what there was: nobody is to wait for starts
			d.link.Tell(sddaemon.SdNotifyReady)
		}
	})
	go func() { // now, so that whoever asks is answered after the start
		if err := d.server.Serve(listener); err != nil {
			d.log.Error("control socket not served", "error", err)
		}
	}()
	return nil
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
}

// Stopping implements [procs.Notifier].
func (s stopper) Stopping() {
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

// takeRole becomes the keeper when the journal has all that is known, which is waited for until then.
func (d *daemon) takeRole(until time.Duration) {
	late := d.loop.Now() >= until
	again := func() { d.loop.Root().After(writePause, func() { d.takeRole(until) }) }
	if !late && !d.journal.Idle() {
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

func (f runFlags) parse(stdout io.Writer) (level slog.Level, show bool, err error) {
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return 0, false, fmt.Errorf("read --log-level: want debug, info, warn or error, got %q", f.logLevel)
	}
	if f.cgroups != "auto" && f.cgroups != "never" {
		return 0, false, fmt.Errorf("read --cgroups: want auto or never, got %q", f.cgroups)
	}
	switch f.output {
	case "auto":
		show = os.Getenv("NOTIFY_SOCKET") == "" && os.Getenv("JOURNAL_STREAM") == "" && !terminal.Discards(stdout)
	case "always":
		show = true
	case "never":
	default:
		return 0, false, fmt.Errorf("read --output: want auto, always or never, got %q", f.output)
	}
	return level, show, nil
}

// newLogHandler shows superd's own messages: short and in colour to a person, as key=value to a program. The journal
// has times of its own.
func newLogHandler(w io.Writer, o terminal.Output, level slog.Level) slog.Handler {
	if o.Terminal {
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !o.Colour})
	}
	options := &slog.HandlerOptions{Level: level}
	if os.Getenv("JOURNAL_STREAM") != "" {
		options.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.NewTextHandler(w, options)
}

// waitFor waits for the group, for at most patience.
func waitFor(group *sync.WaitGroup, patience time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}
