//go:build linux

package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/cmd/superd/ui"
	"superd/config"
	"superd/doctor"
	"superd/internal/failpoint"
	"superd/internal/logqueue"
	"superd/internal/terminal"
	"superd/internal/threads"
	"superd/keeper"
	"superd/pidfd"
	"superd/signals"
)

const (
	logQueue            = 1 << 20 // bytes of superd's own messages that may wait for a slow reader
	keeperLogQueue      = 16 << 10
	extendPeriod        = 10 * time.Second // between extensions of systemd's time-out in a shutdown
	upgradeReadyTimeout = 10 * time.Second // for a new binary to be ready
	finalWriteTimeout   = 2 * time.Second  // for each remaining write when superd ends
	reservedFDs         = 4096             // reserved at the start: those of 1,000 programs
)

type runFlags struct {
	config, runtimeDir, logLevel, output, cgroups string
	strict, noKeeper, endWithTerminal             bool
	watchdog, restartMax                          time.Duration
}

func newRunCommand() *cobra.Command {
	var flags runFlags
	var from string
	cmd := &cobra.Command{
		Use:   "run [FILE]",
		Short: "Run the programs of the configuration",
		Long: `Run starts the programs of the configuration, supervises them, and shows their output.

It is two processes: a supervisor, and above it a small keeper. When the supervisor crashes or is
killed, the keeper starts another one, and the programs keep running. In a terminal a third process
leads the shell's job. When the terminal is closed, superd stops the programs and ends, unless it
was started by nohup.

Signals:
  SIGTERM, SIGINT  stop the programs and end superd; a second one, a second or more after the
                   first, kills the programs that still run
  SIGHUP           reload the configuration
  SIGUSR1          reopen the log files
  SIGUSR2          continue with the binary as it is on disk now
  SIGQUIT          write the state of all programs to superd's log

` + searchPath,
		Example: `  superd run
  superd run web.toml
  superd run --runtime-dir /tmp/try --output never web.toml
  superd run --from Procfile
  superd run -- node server.js     # one command without a configuration; flags: superd run -h --`,
		Args:              oneFile,
		ValidArgsFunction: completeTOML,
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.config = fileOf(args, flags.config)
			if from != "" {
				if flags.config != "" {
					return usageError{fmt.Errorf("read --from: %s is a configuration already: leave one out",
						terminal.Sanitize(flags.config))}
				}
				return ui.RunFrom(from, cmd.Flags())
			}
			return startRun(flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	configFlag(f, &flags.config, "configuration `file`")
	f.StringVar(&from, "from", "",
		"`file` of another supervisor to import and run, such as Procfile or compose:dev.yaml; see superd import")
	f.StringVar(&flags.runtimeDir, "runtime-dir", "",
		"runtime `directory`: control socket, journal and the programs' pipes")
	f.StringVar(&flags.logLevel, "log-level", "info",
		"lowest `level` of superd's own messages: debug, info, warn or error")
	f.StringVar(&flags.output, "output", "auto",
		"`when` to show the programs' lines: auto (not under systemd, not to /dev/null), always or never")
	f.StringVar(&flags.cgroups, "cgroups", "auto",
		"`when` to make a cgroup for each program: auto (if possible) or never")
	f.BoolVar(&flags.strict, "strict", false,
		"refuse a configuration with any mistake, not only the programs concerned")
	f.BoolVar(&flags.noKeeper, "no-keeper", false,
		"run without a keeper, under a service manager that replaces it, such as systemd")
	f.BoolVar(&flags.endWithTerminal, "end-with-terminal", false, "end when this process, or its terminal, has ended")
	_ = f.MarkHidden("end-with-terminal") // no error: the flag is defined; for superd up
	durationVar(f, &flags.watchdog, "watchdog", 30*time.Second,
		"`time` after which the keeper ends a hung supervisor; 0: never")
	durationVar(f, &flags.restartMax, "restart-max", 10*time.Second,
		"longest `pause` between starts of a supervisor that keeps crashing")
	return cmd
}

// A launch has what each process of `superd run` begins with: front process, keeper or supervisor.
type launch struct {
	flags     runFlags
	level     slog.Level
	show      bool // the lines of programs on standard output
	caught    *signals.Caught
	terminal  *keeper.Terminal
	openFiles *unix.Rlimit // limit that superd was started with
	link      *keeper.Link // to the keeper, if there is one
	stdout    io.Writer
	stderr    io.Writer
}

// startRun runs the supervisor if there is a keeper above this process or if there is to be none.
// Otherwise it returns a [runAsKeeper].
func startRun(flags runFlags, stdout, stderr io.Writer) error {
	level, show, err := flags.parse(stdout)
	if err != nil {
		return usageError{err}
	}
	if err := doctor.Require(); err != nil {
		return fmt.Errorf("start superd: %w", err)
	}
	// A panic and the watchdog's SIGABRT end superd by a signal: exit status 2 means wrong usage.
	debug.SetTraceback("crash")
	// From here on these signals never take their default action.
	caught, err := signals.Catch(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGQUIT, unix.SIGCHLD, unix.SIGPIPE)
	if err != nil {
		return err
	}
	if err := signals.ResetInherited(caught); err != nil {
		return fmt.Errorf("start with clean signals: %w", err)
	}
	term := keeper.OpenTerminal(caught.OutlivesTerminal())
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
	l := launch{flags, level, show, caught, term, &openFiles, link, stdout, stderr}
	if link.Pid() == 0 && !flags.noKeeper {
		// No front process if this is PID 1, which has no parent and can't give its role away. Nor
		// if descriptors were handed over: the keeper that takes them is this process, as it
		// replaces another process or was started by a front process.
		inTerminal := term != nil && !term.Outlived || term == nil && flags.endWithTerminal
		if inTerminal && len(link.Files()) == 0 && os.Getpid() != 1 {
			return runAsKeeper(l.runFront)
		}
		return runAsKeeper(l.runKeeper)
	}
	failpoint.SetRole("supervisor")
	if link.Resumes() {
		link.WatchStart(flags.watchdog)
	}
	keeper.SetTitle(keeper.SupervisorTitle, "")
	err = l.runDaemon()
	link.Announce(statusOf(err))
	link.Close(finalWriteTimeout)
	return err
}

// runFront runs the front process, which leads superd's job in a terminal.
func (l launch) runFront() error {
	keeper.BlockPoller()
	return statusError(keeper.RunFront(keeper.FrontOptions{
		Log:       l.logger(l.stderr),
		Args:      os.Args,
		Env:       os.Environ(),
		Signals:   l.caught,
		Terminal:  l.terminal,
		OpenFiles: l.openFiles,

		EndWithTerminal: l.flags.endWithTerminal,
	}))
}

// runKeeper runs the keeper.
func (l launch) runKeeper() error {
	failpoint.SetRole("keeper")
	queue := logqueue.New(l.stderr, keeperLogQueue)
	defer queue.Close(finalWriteTimeout)
	log := l.logger(queue)
	status, err := keeper.Run(keeper.Options{
		Log:         log,
		Args:        os.Args,
		Env:         os.Environ(),
		Signals:     l.caught,
		Terminal:    l.terminal,
		Files:       l.link.Files(),
		Manager:     l.link.Manager,
		OpenFiles:   l.openFiles,
		Room:        reservedFDs,
		HadChildren: l.link.HadChildren(),
		Watchdog:    l.flags.watchdog,
		RestartMax:  l.flags.restartMax,
		Trial:       upgradeReadyTimeout,
		Begun: func() {
			keeper.BlockPoller()
			go pidfd.MakeRoom(reservedFDs)
			if err := threads.Reserve(keeperThreads); err != nil {
				log.Warn("a limit of processes may end superd's keeper", "error", err)
			}
		},
	})
	l.link.Close(finalWriteTimeout)
	return statusError(status, err)
}

// statusError returns err, or else the error that stands for an exit status; nil for 0.
func statusError(status int, err error) error {
	if err == nil && status != 0 {
		err = exitStatus(status)
	}
	return err
}

// logger returns a logger of superd's own messages to w, which leads to standard error.
func (l launch) logger(w io.Writer) *slog.Logger {
	return slog.New(newLogHandler(w, terminal.Detect(l.stderr, os.Getenv), l.level))
}

// loadConfig loads the configuration. It returns a [usageError] if the file is unusable as a whole,
// or, with strict, if it has any mistake.
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

// newLogHandler returns a handler of superd's own messages: short and coloured on a terminal, else
// key=value. Under journald it omits the time, which journald adds.
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
