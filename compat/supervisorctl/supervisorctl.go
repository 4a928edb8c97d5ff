// Package supervisorctl is the command supervisorctl for a superd: its commands, texts and exit
// statuses are those of supervisorctl 4.2.5 (supervisord.org/running.html).
package supervisorctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"superd/compat/supervisor"
	"superd/compat/xmlrpc"
	"superd/internal/terminal"
)

// Exit statuses, as supervisorctl has them from the Linux Standard Base.
const (
	statusFailed     = 1
	statusInvalid    = 2
	statusNotRunning = 7 // of start, stop and the like
	statusDown       = 3 // of status
	statusUnknown    = 4 // of status
	defaultTail      = 1600
	prompt           = "supervisor> "
)

// A Controller executes commands.
type Controller struct {
	Supervisor *supervisor.Supervisor
	Pid        func(context.Context) (int, error) // of superd
	Shutdown   func(context.Context) error        // ends superd
	Out        io.Writer

	status int
}

// A command executes one command of the controller.
type command struct {
	run  func(c *Controller, ctx context.Context, args []string) error
	help string
}

func commands() map[string]command {
	return map[string]command{
		"add":      {(*Controller).add, "add <name> [...]\tActivates any updates in config for process/group"},
		"avail":    {(*Controller).avail, "avail\t\t\tDisplay all configured processes"},
		"clear":    {(*Controller).clear, "clear <name>\t\tClear a process' log files.\nclear <name> <name>\tClear multiple process' log files\nclear all\t\tClear all process' log files"},
		"maintail": {(*Controller).mainTail, "maintail\t\tsuperd writes its messages to standard error"},
		"pid":      {(*Controller).pid, "pid\t\t\tGet the PID of superd.\npid <name>\t\tGet the PID of a single child process by name.\npid all\t\t\tGet the PID of every child process, one per line."},
		"reload":   {(*Controller).reload, "reload \t\tRead the configuration again and restart all programs."},
		"remove":   {(*Controller).remove, "remove <name> [...]\tRemoves process/group from active config"},
		"reread":   {(*Controller).reread, "reread \t\t\tShow what the configuration files would change"},
		"restart":  {(*Controller).restart, "restart <name>\t\tRestart a process\nrestart <gname>:*\tRestart all processes in a group\nrestart <name> <name>\tRestart multiple processes or groups\nrestart all\t\tRestart all processes"},
		"shutdown": {(*Controller).shutdown, "shutdown \tShut superd down."},
		"signal":   {(*Controller).signal, "signal <signal name> <name>\t\tSignal a process\nsignal <signal name> <gname>:*\t\tSignal all processes in a group\nsignal <signal name> <name> <name>\tSignal multiple processes or groups\nsignal <signal name> all\t\tSignal all processes"},
		"start":    {(*Controller).start, "start <name>\t\tStart a process\nstart <gname>:*\t\tStart all processes in a group\nstart <name> <name>\tStart multiple processes or groups\nstart all\t\tStart all processes"},
		"status":   {(*Controller).showStatus, "status <name>\t\tGet status for a single process\nstatus <gname>:*\tGet status for all processes in a group\nstatus\t\t\tGet all process status info"},
		"stop":     {(*Controller).stop, "stop <name>\t\tStop a process\nstop <gname>:*\t\tStop all processes in a group\nstop <name> <name>\tStop multiple processes or groups\nstop all\t\tStop all processes"},
		"tail":     {(*Controller).tail, "tail [-f] <name> [stdout|stderr] (default stdout)\ntail -100 <name>\tlast 100 *bytes* of process stdout"},
		"update":   {(*Controller).update, "update\t\t\tReload config and add/remove as necessary, and will restart affected programs"},
		"version":  {(*Controller).version, "version\t\t\tShow the version of the remote supervisord process"},
	}
}

// Run executes a command and returns the exit status.
func (c *Controller) Run(ctx context.Context, args []string) int {
	c.status = 0
	name := args[0]
	switch cmd, ok := commands()[name]; {
	case name == "help":
		c.help(args[1:])
	case !ok:
		c.print("*** Unknown syntax: %s", strings.Join(args, " "))
		c.status = statusFailed
	default:
		if err := cmd.run(c, ctx, args[1:]); err != nil {
			c.fail(err)
		}
	}
	return c.status
}

// Interact reads commands from in, a line each, until its end, exit or quit.
func (c *Controller) Interact(ctx context.Context, in io.Reader) int {
	c.Run(ctx, []string{"status"})
	lines := bufio.NewScanner(in)
	for {
		fmt.Fprint(c.Out, prompt)
		if !lines.Scan() {
			fmt.Fprintln(c.Out)
			return c.status
		}
		args := strings.Fields(lines.Text())
		switch {
		case len(args) == 0:
		case args[0] == "exit" || args[0] == "quit":
			return c.status
		default:
			c.Run(ctx, args)
		}
	}
}

func (c *Controller) help(args []string) {
	all := commands()
	for _, name := range args {
		cmd, ok := all[name]
		if !ok {
			c.print("*** No help on %s", name)
			continue
		}
		c.print("%s", cmd.help)
	}
	if len(args) > 0 {
		return
	}
	c.print("\ndefault commands (type help <topic>):\n=====================================")
	c.print("%s", strings.Join(append(slices.Sorted(maps.Keys(all)), "exit", "quit"), "  "))
}

// print prints a line, whose text may come from a program.
func (c *Controller) print(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...) + "\n") {
		line = strings.TrimSuffix(line, "\n")
		parts := strings.Split(line, "\t")
		for i := range parts {
			parts[i] = terminal.Sanitize(parts[i])
		}
		fmt.Fprintln(c.Out, strings.Join(parts, "\t"))
	}
}

// fail prints an error that no command expects.
func (c *Controller) fail(err error) {
	c.status = statusFailed
	f, ok := errors.AsType[*xmlrpc.Fault](err)
	switch {
	case ok && f.Code == supervisor.ShutdownState:
		c.print("ERROR: superd does not answer or is shutting down")
	case ok:
		c.print("error: %s", f.Text)
	default:
		c.print("error: %v", err)
	}
}

// note keeps the exit status that a fault leads to; ignored is one that leads to none.
func (c *Controller) note(code, ignored int) {
	switch code {
	case ignored, supervisor.Success:
	case supervisor.SpawnError, supervisor.AbnormalTermination, supervisor.NotRunning:
		c.status = statusNotRunning
	default:
		c.status = statusFailed
	}
}

// faultTexts are the texts of faults of a process.
var faultTexts = map[int]string{
	supervisor.BadName: "no such process", supervisor.NoFile: "no such file",
	supervisor.NotExecutable: "file is not executable", supervisor.AlreadyStarted: "already started",
	supervisor.SpawnError: "spawn error", supervisor.AbnormalTermination: "abnormal termination",
	supervisor.BadSignal: "bad signal name", supervisor.NotRunning: "not running",
}

// show prints what a command has done to a process.
func (c *Controller) show(r supervisor.Result, success string) {
	spec := supervisor.Spec(r.Group, r.Name)
	text, known := faultTexts[r.Status]
	switch {
	case r.Status == supervisor.Success:
		c.print("%s: %s", spec, success)
	case known:
		c.print("%s: ERROR (%s)", spec, text)
	default:
		c.print("%s: ERROR (%s)", spec, r.Text)
	}
}

// An operation is start, stop or signal.
type operation struct {
	done    string // what is printed of a success
	ignored int    // fault that is none for the exit status
	all     func(group string) ([]supervisor.Result, error)
	one     func(spec string) error
}

// apply applies an operation to names: processes, groups, or all.
func (c *Controller) apply(o operation, names []string) error {
	if slices.Contains(names, "all") {
		return c.applyAll(o, "")
	}
	for _, spec := range names {
		group, name := supervisor.Split(spec)
		if name == "" {
			if err := c.applyAll(o, group); err != nil {
				return err
			}
			continue
		}
		r := supervisor.Result{Group: group, Name: name, Status: supervisor.Success}
		if err := o.one(spec); err != nil {
			f, ok := errors.AsType[*xmlrpc.Fault](err)
			if !ok || f.Code == supervisor.ShutdownState {
				return err
			}
			r.Status, r.Text = f.Code, f.Text
		}
		c.show(r, o.done)
		c.note(r.Status, o.ignored)
	}
	return nil
}

func (c *Controller) applyAll(o operation, group string) error {
	all, err := o.all(group)
	if f, ok := errors.AsType[*xmlrpc.Fault](err); ok && f.Code == supervisor.BadName {
		c.print("%s: ERROR (no such group)", group)
		c.status = statusFailed
		if o.done == "started" {
			c.status = statusInvalid
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range all {
		c.show(r, o.done)
		c.note(r.Status, o.ignored)
	}
	return nil
}

// needNames prints an error if there are no names.
func (c *Controller) needNames(verb string, names []string, status int) bool {
	if len(names) > 0 {
		return true
	}
	c.print("Error: %s requires a process name", verb)
	c.status = status
	c.help([]string{verb})
	return false
}

func (c *Controller) start(ctx context.Context, names []string) error {
	if !c.needNames("start", names, statusInvalid) {
		return nil
	}
	return c.apply(operation{"started", supervisor.AlreadyStarted,
		func(group string) ([]supervisor.Result, error) { return c.Supervisor.StartAll(ctx, group, true) },
		func(spec string) error { return c.Supervisor.Start(ctx, spec, true) }}, names)
}

func (c *Controller) stop(ctx context.Context, names []string) error {
	if !c.needNames("stop", names, statusFailed) {
		return nil
	}
	return c.apply(operation{"stopped", supervisor.NotRunning,
		func(group string) ([]supervisor.Result, error) { return c.Supervisor.StopAll(ctx, group, true) },
		func(spec string) error { return c.Supervisor.Stop(ctx, spec, true) }}, names)
}

func (c *Controller) restart(ctx context.Context, names []string) error {
	if !c.needNames("restart", names, statusFailed) {
		return nil
	}
	if err := c.stop(ctx, names); err != nil {
		return err
	}
	return c.start(ctx, names)
}

func (c *Controller) signal(ctx context.Context, args []string) error {
	if len(args) < 2 {
		c.print("Error: signal requires a signal name and a process name")
		c.help([]string{"signal"})
		c.status = statusFailed
		return nil
	}
	return c.apply(operation{"signalled", supervisor.Success,
		func(group string) ([]supervisor.Result, error) { return c.Supervisor.SignalAll(ctx, group, args[0]) },
		func(spec string) error { return c.Supervisor.Signal(ctx, spec, args[0]) }}, args[1:])
}

func (c *Controller) showStatus(ctx context.Context, names []string) error {
	all, err := c.Supervisor.Processes(ctx)
	if err != nil {
		c.fail(err)
		c.status = statusUnknown
		return nil
	}
	shown := all
	if len(names) > 0 && !slices.Contains(names, "all") {
		shown = nil
		for _, spec := range names {
			group, name := supervisor.Split(spec)
			before := len(shown)
			for i := range all {
				if all[i].Group == group && (name == "" || all[i].Name == name) {
					shown = append(shown, all[i])
				}
			}
			if len(shown) > before {
				continue
			}
			c.status = statusUnknown
			if name == "" {
				c.print("%s: ERROR (no such group)", group)
			} else {
				c.print("%s: ERROR (no such process)", spec)
			}
		}
	}
	width := 30
	for i := range shown {
		width = max(width, len(shown[i].Spec()))
	}
	for i := range shown {
		c.print("%-*s%-10s%s", width+3, shown[i].Spec(), shown[i].State, shown[i].Description())
		if shown[i].State.Down() {
			c.status = statusDown
		}
	}
	return nil
}

func (c *Controller) pid(ctx context.Context, names []string) error {
	if len(names) == 0 {
		pid, err := c.Pid(ctx)
		if err != nil {
			return err
		}
		c.print("%d", pid)
		return nil
	}
	if slices.Contains(names, "all") {
		all, err := c.Supervisor.Processes(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			c.print("%d", all[i].Pid)
		}
		return nil
	}
	for _, spec := range names {
		p, err := c.Supervisor.Process(ctx, spec)
		if f, ok := errors.AsType[*xmlrpc.Fault](err); ok && f.Code == supervisor.BadName {
			c.print("No such process %s", spec)
			c.status = statusFailed
			continue
		}
		if err != nil {
			return err
		}
		c.print("%d", p.Pid)
		if p.Pid == 0 {
			c.status = statusNotRunning
		}
	}
	return nil
}

func (c *Controller) tail(ctx context.Context, args []string) error {
	follow, bytes := false, defaultTail
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n, err := strconv.Atoi(args[0][1:])
		switch {
		case args[0] == "-f":
			follow = true
		case err != nil:
			c.print("Error: bad argument %s", args[0])
			c.status = statusFailed
			return nil
		default:
			bytes = n
		}
		args = args[1:]
	}
	if len(args) == 0 || len(args) > 2 {
		c.print("Error: tail requires a process name")
		c.status = statusFailed
		return nil
	}
	of := supervisor.Stdout
	if len(args) == 2 {
		switch strings.ToLower(args[1]) {
		case "stdout":
		case "stderr":
			of = supervisor.Stderr
		default:
			c.print("Error: bad channel '%s'", args[1])
			c.status = statusFailed
			return nil
		}
	}
	p, err := c.Supervisor.Process(ctx, args[0])
	if err != nil {
		return c.tailFailed(args[0], err)
	}
	if follow {
		c.print("==> Press Ctrl-C to exit <==")
		return c.Supervisor.Follow(ctx, p, of, c.Out, func() error { return nil })
	}
	if !p.HasLog(of) {
		c.print("%s: ERROR (no log file)", args[0])
		c.status = statusFailed
		return nil
	}
	text, err := c.Supervisor.Tail(ctx, p, of, bytes)
	if err != nil {
		return c.tailFailed(args[0], err)
	}
	_, err = io.WriteString(c.Out, text+"\n")
	return err
}

// tailFailed prints why a log can't be read.
func (c *Controller) tailFailed(spec string, err error) error {
	f, ok := errors.AsType[*xmlrpc.Fault](err)
	if !ok || f.Code == supervisor.ShutdownState {
		return err
	}
	c.status = statusFailed
	switch f.Code {
	case supervisor.NoFile:
		c.print("%s: ERROR (no log file)", spec)
	case supervisor.BadName:
		c.print("%s: ERROR (no such process name)", spec)
	default:
		c.print("%s: ERROR (unknown error reading log)", spec)
	}
	return nil
}
