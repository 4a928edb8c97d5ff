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
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/config"
	"superd/control"
	"superd/control/server"
	"superd/logs"
	"superd/loop"
	"superd/procs"
	"superd/procs/eventlog"
	"superd/signals"
	"superd/terminal"
)

const (
	logQueue     = 1 << 20         // bytes of superd's own messages that may wait for a slow reader
	farewellTime = 2 * time.Second // for what is left to be shown when superd ends
)

type runFlags struct {
	config, runtimeDir, logLevel, output, cgroups string
	strict                                        bool
}

func newRunCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the programs of the configuration until told to stop",
		Long: `Run starts the programs of the configuration, supervises them, and shows their output.

SIGTERM and SIGINT (Ctrl-C) stop the programs and end superd, a second one does so at once. SIGHUP
reloads the configuration, SIGUSR1 reopens the log files, SIGQUIT writes the state of everything to
superd's log.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDaemon(flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.config, "config", "c", "", "configuration `file`")
	f.StringVar(&flags.runtimeDir, "runtime-dir", "", "`directory` of the control socket and the programs' pipes")
	f.StringVar(&flags.logLevel, "log-level", "info", "least `level` of superd's own messages: debug, info, warn or error")
	f.StringVar(&flags.output, "output", "auto", "show the programs' lines: `when` is auto (not under systemd), always or never")
	f.StringVar(&flags.cgroups, "cgroups", "auto", "give each program a cgroup of its own: `when` is auto (where superd may make them) or never")
	f.BoolVar(&flags.strict, "strict", false, "refuse a configuration with any mistake, instead of failing only the programs concerned")
	return cmd
}

// runDaemon is superd run.
func runDaemon(flags runFlags, stdout, stderr io.Writer) error {
	level, show, err := flags.parse()
	if err != nil {
		return usageError{err}
	}
	// A panic and SIGABRT, the watchdog's, must end superd by a signal: an exit status of 2 means wrong usage.
	debug.SetTraceback("crash")
	// From here to the very end these do not take their default action, whoever else watches them.
	held := make(chan os.Signal, 1)
	signal.Notify(held, unix.SIGPIPE, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := errors.Join(signals.ResetInherited(), signals.MarkInheritedCloexec()); err != nil {
		return fmt.Errorf("start with clean signals and descriptors: %w", err)
	}
	path, err := config.Find(flags.config, os.Getenv, os.Geteuid())
	if err != nil {
		return usageError{err}
	}
	conf, err := config.Load(path)
	if err != nil {
		return usageError{err}
	}
	if flags.strict && len(conf.Errors) > 0 {
		return usageError{conf.Errors}
	}
	runtimeDir, err := filepath.Abs(config.RuntimeDir(flags.runtimeDir, conf, os.Getenv, os.Geteuid()))
	if err != nil {
		return err
	}
	logDir := config.LogDir(conf, runtimeDir, os.Geteuid())

	dir, err := procs.OpenRuntimeDir(runtimeDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := procs.FindSurvivors(dir.Path); err != nil {
		dir.Leave()
		return err
	}
	if err := procs.PrepareLogDir(logDir); err != nil {
		return err
	}
	listener, err := server.Listen(filepath.Join(dir.Path, control.SocketName))
	if err != nil {
		return err
	}
	defer listener.Close()

	queue := logs.NewQueue(stderr, logQueue)
	defer queue.Close(farewellTime)
	log := slog.New(newLogHandler(queue, terminal.Detect(stderr, os.Getenv), level))

	l, err := loop.New()
	if err != nil {
		return err
	}
	d := &daemon{loop: l, log: log, configPath: path, noCgroup: flags.cgroups == "never"}
	var printed sync.WaitGroup
	events := eventlog.Open(dir.Path, eventlog.MaxSize, log)
	defer events.Close(farewellTime)
	options := procs.Options{
		Loop:        l,
		Store:       logs.NewStore(l, log),
		Log:         log,
		Events:      events,
		Config:      conf,
		Load:        func() (*config.Config, error) { return config.Load(path) },
		RuntimeDir:  dir.Path,
		LogDir:      logDir,
		Environment: os.Environ(),
		Pid:         os.Getpid(),
	}
	if show {
		printer := terminal.NewLinePrinter(stdout, terminal.Detect(stdout, os.Getenv))
		options.OnCapture = func(c *logs.Capture) func() {
			lines := printer.Program(c.Name())
			printed.Go(func() {
				defer lines.Close()
				// What can't be shown is still in the log file: a terminal that has gone is no failure.
				_ = c.FollowFromStart(context.Background(), lines)
			})
			return func() { go lines.EndRun() } // showing may block
		}
	}
	if err := d.start(options, listener); err != nil {
		if _, survivors := errors.AsType[*procs.SurvivorsError](err); survivors {
			dir.Leave()
		}
		return err
	}
	err = l.Run()
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	if werr := options.Store.Wait(ctx); werr != nil {
		log.Warn("log files not closed: a file system does not answer", "waited", farewellTime)
	}
	events.Close(farewellTime) // those who follow them see the last ones before the server ends
	waitFor(&printed, farewellTime)
	d.systemd.Close(farewellTime)
	if err := errors.Join(err, d.server.Close()); err != nil {
		return err
	}
	if status := d.supervisor.ExitStatus(); status != 0 {
		return exitStatus(status)
	}
	return nil
}

// A daemon is a running superd: the supervisor with those who talk to it.
type daemon struct {
	loop       *loop.Loop
	log        *slog.Logger
	configPath string
	noCgroup   bool
	supervisor *procs.Supervisor
	server     *server.Server
	systemd    *procs.Systemd
}

// start puts everything on the loop, which does not run yet.
func (d *daemon) start(options procs.Options, listener net.Listener) error {
	kernel, err := procs.NewKernel(d.loop, procs.KernelOptions{RuntimeDir: options.RuntimeDir, Log: options.Log, NoCgroup: d.noCgroup})
	if err != nil {
		return err
	}
	options.System = kernel
	if _, err := crand.Read(options.Seed[:]); err != nil {
		return fmt.Errorf("draw a seed: %w", err)
	}
	d.systemd = procs.NewSystemd(d.loop.Root())
	options.Notify = d.systemd
	d.supervisor = procs.New(options)
	d.server = server.New(server.Options{
		Post:       d.loop.Post,
		Supervisor: d.supervisor,
		Events:     options.Events,
		Log:        d.log,
		Version:    ownVersion(),
		UID:        os.Geteuid(),
	})
	go func() {
		if err := d.server.Serve(listener); err != nil {
			d.log.Error("control socket not served", "error", err)
		}
	}()
	err = signals.Watch(d.loop.Root(), d.onSignal, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGQUIT, unix.SIGCHLD, unix.SIGPIPE)
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
		d.supervisor.Start(d.loop.Stop)
	})
	return nil
}

func (d *daemon) onSignal(sig syscall.Signal) {
	switch sig {
	case unix.SIGTERM, unix.SIGINT:
		d.supervisor.Shutdown(unix.SignalName(sig))
	case unix.SIGHUP:
		d.supervisor.Reload(func(procs.Report, error) {}) // the supervisor logs what came of it
	case unix.SIGUSR1:
		d.supervisor.ReopenLogs()
	case unix.SIGUSR2:
		d.log.Warn("signal ignored: this version of superd does not upgrade in place", "signal", "SIGUSR2")
	case unix.SIGQUIT:
		d.supervisor.LogState()
	case unix.SIGCHLD:
		d.supervisor.Children()
	case unix.SIGPIPE: // whoever read superd's output has gone; the programs go on
	}
}

func (f runFlags) parse() (level slog.Level, show bool, err error) {
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return 0, false, fmt.Errorf("read --log-level: want debug, info, warn or error, got %q", f.logLevel)
	}
	if f.cgroups != "auto" && f.cgroups != "never" {
		return 0, false, fmt.Errorf("read --cgroups: want auto or never, got %q", f.cgroups)
	}
	switch f.output {
	case "auto":
		show = os.Getenv("NOTIFY_SOCKET") == "" && os.Getenv("JOURNAL_STREAM") == ""
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
