package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/config"
	"superd/control"
	"superd/crashpoint"
	"superd/footprint"
	"superd/keeper"
	"superd/logs"
	"superd/loop"
	"superd/pidfd"
	"superd/procs"
	"superd/procs/eventlog"
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
	usualFiles     = 4096             // that superd or its keeper may have open without a larger table: those of 1,000 programs
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
	queue := logs.NewQueue(stderr, keeperLogQueue)
	defer queue.Close(farewellTime)
	log := slog.New(newLogHandler(queue, terminal.Detect(stderr, os.Getenv), level))
	status, err := keeper.Run(keeper.Options{
		Log:        log,
		Args:       os.Args,
		Env:        os.Environ(),
		Signals:    caught,
		Files:      link.Files(),
		Manager:    link.Manager,
		OpenFiles:  openFiles,
		Room:       usualFiles,
		Watchdog:   flags.watchdog,
		RestartMax: flags.restartMax,
		Trial:      trialTime,
		Begun: func() {
			keeper.StaySmall()
			go pidfd.MakeRoom(usualFiles)
			if err := threads.Reserve(keeperWaiting); err != nil {
				log.Warn("superd's keeper is not safe from a limit of processes", "error", err)
			}
		},
	})
	link.Close(farewellTime)
	if err == nil && status != 0 {
		err = exitStatus(status)
	}
	return err
}

// runDaemon is the supervisor.
func runDaemon(flags runFlags, level slog.Level, show bool, link *keeper.Link, caught *signals.Caught, openFiles *unix.Rlimit, stdout, stderr io.Writer) error {
	pacer := footprint.NewPacer(heapGrowth, nil)
	calm := pacer.Hurry()
	go pidfd.MakeRoom(usualFiles) // there is, if the keeper has started this process
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

	forget, err := keepLastWords(dir.Path, log, queue.Pass)
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
		loop: l, log: log, configPath: path, noCgroup: flags.cgroups == "never", link: link, caught: caught, openFiles: openFiles, pace: newPace(l.Root(), pacer, calm),
		lockFD:   dir.LockFD(),
		watchdog: flags.watchdog,
		journal:  left.journal, events: events, messages: queue, endServing: func() error { return nil },
	}
	var printed sync.WaitGroup
	options := procs.Options{
		Loop:    l,
		Store:   logs.NewStore(l, log),
		Log:     slog.New(newLogHandler(queue.Later(d.passMessages), terminal.Detect(stderr, os.Getenv), level)),
		Events:  events,
		OnWrite: queue.Pass,
		Config:  conf,
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
	if err := <-threadsReady; err != nil { // now: what follows makes use of them
		log.Warn("superd is not safe from a limit of processes", "error", err)
	}
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
	if err := errors.Join(err, d.endServing()); err != nil {
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
