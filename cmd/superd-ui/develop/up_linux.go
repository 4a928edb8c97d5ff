package develop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/config/document"
	"superd/develop/plan"
	"superd/develop/project"
	"superd/importer/draft"
	"superd/internal/terminal"
	"superd/internal/words"
)

// upFlags are the flags of superd up.
type upFlags struct {
	file                  string
	format                string // of the file, as named before it; "": by its name
	only, exitWith        []string
	pty, watch            []string
	scale                 []string // NAME=NUMBER
	port                  int
	portSet               bool
	envFiles              []string
	detach, killPort, yes bool
	logLevel              string
	superd                string
	stdin                 *os.File
	answers               *bufio.Reader // of stdin; nil before the first question
	stdout, stderr        io.Writer
}

func (e Errors) newUp() *cobra.Command {
	f := upFlags{stdin: os.Stdin}
	cmd := &cobra.Command{
		Use:   "up [NAME…]",
		Short: "Run the programs of a project for development",
		Long: `Up runs the programs of a project, or those that are named with what they require, and shows their
lines, until Ctrl-C. A second Ctrl-C, a second or more after the first, kills what still runs. Nothing
is left when the terminal is closed, or killed. With -d the programs run in the background until
superd down; a second up -d applies what has changed.

The file is that of -f, or else the first of these in the working directory: superd.toml,
Procfile.dev, Procfile, process-compose.yaml, compose.yaml. Each program gets a PORT, 5000 for the
first of the file and 100 more for each further one, unless a superd.toml gives it another one; and
the variables of .env.

Each project has a runtime directory of its own, so that several run beside each other. superd ctl
finds the one of the working directory.`,
		Example: `  superd up
  superd up web worker -f Procfile.dev
  superd up --scale worker=3 --pty web --watch web
  superd up --exit-with test           ends all with the status of test
  superd up -d && superd logs -f`,
		ValidArgsFunction: f.completeNames,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f.stdout, f.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
			f.only = append(f.only, args...)
			f.portSet = cmd.Flags().Changed("port")
			if f.superd, err = superdOf(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), e)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "`file` with the programs, such as compose:dev.yaml, or its directory")
	flags.StringSliceVar(&f.only, "only", nil, "`names` of the programs to run, as in web,worker")
	flags.StringSliceVarP(&f.scale, "scale", "m", nil, "replicas of programs, as in `web=3,worker=2`")
	flags.StringSliceVar(&f.exitWith, "exit-with", nil,
		"`names` of programs that are not restarted: the end of one ends all, with its status; '*': any")
	flags.StringSliceVar(&f.pty, "pty", nil, "`names` of programs that get a terminal, for superd attach; '*': all")
	flags.StringSliceVar(&f.watch, "watch", nil,
		"`names` of programs that are restarted when files of their directory change; '*': all")
	flags.IntVarP(&f.port, "port", "p", 0, "PORT of the first program (default: that of .env or of the environment, or 5000)")
	flags.StringSliceVarP(&f.envFiles, "env", "e", nil, "env `files` instead of .env")
	flags.BoolVarP(&f.detach, "detach", "d", false, "run in the background; output goes to the logs")
	flags.BoolVar(&f.killPort, "kill-port", false, "ask whether to end processes that have a PORT of the programs")
	flags.BoolVarP(&f.yes, "yes", "y", false, "with --kill-port: do not ask")
	flags.StringVar(&f.logLevel, "log-level", "info", "lowest `level` of superd's own messages: debug, info, warn or error")
	for flag, complete := range map[string]cobra.CompletionFunc{
		"only": f.completeNames, "exit-with": f.completeNames, "pty": f.completeNames, "watch": f.completeNames,
		"log-level": cobra.FixedCompletions([]cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, complete) // no error: the flag is defined
	}
	return cmd
}

// run runs the project. In the foreground it does not return: superd takes the place of this
// process.
func (f *upFlags) run(ctx context.Context, e Errors) error {
	format, named := formatOf(f.file)
	file, err := find(named)
	if err != nil {
		return e.Usage(err)
	}
	f.format = format
	if _, err := os.Stat(file); err != nil {
		return e.Usage(fmt.Errorf("read %s: %w", terminal.Sanitize(file), cause(err)))
	}
	p, err := project.Own().At(file)
	if err != nil {
		return err
	}
	if p.State() == project.Running && f.detach {
		if _, err := f.plan(p); err != nil {
			return e.Usage(err)
		}
		return f.apply(ctx, p)
	}
	if err := p.Prepare(); err != nil {
		return err
	}
	lock, err := p.Lock()
	if errors.Is(err, project.ErrLocked) || err == nil && p.State() == project.Running {
		return fmt.Errorf("%s runs already: `superd logs -f` shows its lines, `superd up -d` applies changes, `superd down` ends it",
			terminal.Sanitize(p.File))
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	made, err := f.plan(p)
	if err != nil {
		return e.Usage(err)
	}
	if p.State() == project.Ended {
		if err := os.RemoveAll(p.RuntimeDir()); err != nil { // what was stopped starts again
			return fmt.Errorf("remove the runtime directory of an earlier run: %w", err)
		}
		if err := f.freePorts(ctx, made.Ports); err != nil {
			return err
		}
	}
	p.Background = f.detach
	if err := p.Save(); err != nil {
		return err
	}
	if f.detach {
		return f.start(ctx, p, e)
	}
	// The front process keeps the lock until its end
	if _, err := unix.FcntlInt(lock.Fd(), unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("start superd: %w", err)
	}
	return execute(f.superd, append(runArgs(p), "--log-level="+f.logLevel, "--output=always", "--end-with-terminal")...)
}

// runArgs returns the arguments by which superd runs a project.
func runArgs(p *project.Project) []string {
	return []string{"run", "--config=" + p.ConfigFile(), "--runtime-dir=" + p.RuntimeDir()}
}

// plan writes the configuration of the project's superd.
func (f *upFlags) plan(p *project.Project) (*plan.Plan, error) {
	c, ports, notes, err := load(p, f.format)
	if err != nil {
		return nil, err
	}
	o := plan.Options{
		Names: f.only, ExitWith: f.exitWith, PTY: f.pty, Watch: f.watch, Ports: ports, LogDir: p.LogDir(),
	}
	if o.Scale, err = parseScale(f.scale); err != nil {
		return nil, err
	}
	if err := f.environment(p, &o); err != nil {
		return nil, err
	}
	made, err := plan.Make(c, o)
	if err != nil {
		return nil, err
	}
	if err := p.Write(p.ConfigFile(), made.Text); err != nil {
		return nil, err
	}
	if _, err := strict(p.ConfigFile()); err != nil {
		return nil, err
	}
	f.tell(p, notes)
	return made, nil
}

// parseScale reads replicas such as web=3.
func parseScale(all []string) (map[string]int, error) {
	scale := map[string]int{}
	for _, text := range all {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		if name == "" || err != nil {
			return nil, fmt.Errorf("read --scale: want NAME=NUMBER, such as web=3, got %q", text)
		}
		scale[name] = n
	}
	return scale, nil
}

// mostNotes is how many notes on an import are shown.
const mostNotes = 5

// tell shows what is different from what the file means elsewhere.
func (f *upFlags) tell(p *project.Project, notes []draft.Note) {
	for _, n := range notes[:min(len(notes), mostNotes)] {
		n.File = filepath.Base(n.File)
		fmt.Fprintf(f.stderr, "superd: %s\n", terminal.Sanitize(n.String()))
	}
	if more := len(notes) - mostNotes; more > 0 {
		fmt.Fprintf(f.stderr, "superd: and %s: superd import %s shows all\n",
			words.Plural(more, "further note"), terminal.Sanitize(filepath.Base(p.File)))
	}
}

// environment sets the env files of all programs and the first port.
func (f *upFlags) environment(p *project.Project, o *plan.Options) error {
	if usesDotEnv(p.File, f.format) {
		o.DotEnv = filepath.Join(p.Directory, ".env")
		o.EnvFiles = []string{"-" + o.DotEnv}
	}
	if len(f.envFiles) > 0 {
		o.EnvFiles = nil
	}
	for _, file := range f.envFiles {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("read --env: %w", err)
		}
		if _, err := os.Stat(absolute); err != nil {
			return fmt.Errorf("read --env: %s: %w", file, cause(err))
		}
		o.EnvFiles = append(o.EnvFiles, absolute)
	}
	reader, value := document.NewReader(p.File, document.FileSystem()), os.Getenv("PORT")
	for _, file := range o.EnvFiles {
		vars, mistakes := reader.EnvFile(strings.TrimPrefix(file, "-"))
		if len(mistakes) > 0 && !errors.Is(mistakes, os.ErrNotExist) {
			return mistakes
		}
		if port, ok := vars["PORT"]; ok {
			if n, err := strconv.Atoi(port); err != nil || n < 1 {
				return fmt.Errorf("read PORT of %s: want a number from 1 to 65535, got %q", strings.TrimPrefix(file, "-"), port)
			}
			value = port
		}
	}
	o.FirstPort = plan.DefaultPort
	if port, err := strconv.Atoi(value); err == nil && port > 0 {
		o.FirstPort = port
	}
	if f.portSet {
		o.FirstPort = f.port
	}
	if o.FirstPort < 1 {
		return fmt.Errorf("read --port: want a number from 1 to 65535, got %d", f.port)
	}
	return nil
}

// cause returns an error of a file without operation and path.
func cause(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// apply reloads the configuration of a project that runs, and starts the programs that are named.
func (f *upFlags) apply(ctx context.Context, p *project.Project) error {
	reload := []string{"ctl", "--runtime-dir=" + p.RuntimeDir(), "reload"}
	if len(f.only) == 0 {
		return execute(f.superd, reload...)
	}
	cmd := exec.CommandContext(ctx, f.superd, reload...)
	cmd.Stdout, cmd.Stderr = f.stdout, f.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apply changes: %w", err)
	}
	return execute(f.superd, append([]string{"ctl", "--runtime-dir=" + p.RuntimeDir(), "start", "--"}, f.only...)...)
}

// execute replaces this process by superd with these arguments.
func execute(superd string, args ...string) error {
	return fmt.Errorf("execute %s: %w", superd, unix.Exec(superd, append([]string{"superd"}, args...), os.Environ()))
}

// completeNames completes the programs of the file.
func (f *upFlags) completeNames(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	_, named := formatOf(f.file)
	file, err := find(named)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return programsOf(file), cobra.ShellCompDirectiveNoFileComp
}
