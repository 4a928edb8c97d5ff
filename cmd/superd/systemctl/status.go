package systemctl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"superd/cmd/superd/report"
	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// detailLines is how many lines of the log a detailed status has.
const detailLines = 10

// A LogPrinter prints the last lines of an instance.
type LogPrinter func(ctx context.Context, client *control.Client, instance string, lines int) error

// PrintDetails prints the status of the instances that names select as systemctl does, a block
// each, with the last lines of their logs.
func PrintDetails(ctx context.Context, client *control.Client, names []string, all []control.Status, w io.Writer, logs LogPrinter) error {
	colours := terminal.Detect(w, os.Getenv).Colour
	trees, err := client.Tree(ctx, names)
	if err != nil {
		return err
	}
	configured, err := client.Config(ctx, names)
	if err != nil {
		return err
	}
	definitions := map[string]control.Configured{}
	for _, c := range configured {
		definitions[c.Program] = c
	}
	for i := range all {
		s := &all[i]
		text := detail(s, treesOf(s.Name, trees), definitions[s.Program], time.Now(), colours)
		if i > 0 {
			text = "\n" + text
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		if s.LastLine == nil {
			continue
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := logs(ctx, client, s.Name, detailLines); err != nil {
			return err
		}
	}
	return nil
}

// treesOf returns the processes of an instance, and those that may belong to it.
func treesOf(instance string, trees []control.ProcessTree) (own []control.ProcessTree) {
	for _, t := range trees {
		if t.Unattributed {
			t.Processes = slices.DeleteFunc(slices.Clone(t.Processes), func(p control.Process) bool {
				return !slices.Contains(p.PerhapsOf, instance)
			})
		}
		if t.Name == instance || t.Unattributed {
			own = append(own, t)
		}
	}
	return own
}

// limits are those of a program, as its table in TOML has them.
type limits struct {
	Memory, CPU, Tasks any
}

// detail returns the block about an instance. c is the zero value if its program is not in the
// configuration any more.
func detail(s *control.Status, trees []control.ProcessTree, c control.Configured, now time.Time, colours bool) string {
	var b bytes.Buffer
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%11s: %s\n", label, fmt.Sprintf(format, args...))
	}
	mark, state := "●", s.State
	if colours {
		colour := report.StateColour(s.State)
		mark, state = colour.Paint(mark), colour.Paint(state)
	}
	fmt.Fprintf(&b, "%s %s\n", mark, terminal.Sanitize(s.Name))

	var most limits
	if c.Program != "" {
		line("Defined", "%s:%d; %s", terminal.Sanitize(c.File), c.Line, startsWith(s))
		var file struct {
			Program map[string]struct{ Limits limits }
		}
		if _, err := toml.Decode(c.Text, &file); err == nil {
			most = file.Program[c.Program].Limits
		}
	}
	unusual := report.Reason(s, now)
	why := unusual
	if s.State == control.StateRunning {
		why = report.Shown(s.Reason, report.OneLine)
	}
	if why != "" {
		why = ": " + why
	}
	line("State", "%s%s%s", state, report.Shown(s.Since, func(t time.Time) string { return " since " + at(t, now) }), why)
	if s.State == control.StateRunning && unusual != "" {
		line("Problem", "%s", unusual)
	}
	if len(s.Groups) > 0 {
		line("Groups", "%s", terminal.Sanitize(strings.Join(s.Groups, ", ")))
	}
	if h := s.HealthCheck; h != nil && s.Healthy != nil {
		text := "healthy"
		if !*s.Healthy {
			text = "unhealthy"
		}
		line("Health", "%s, checked %s ago", text, report.Age(now.Sub(h.At)))
	}
	if s.StatusText != nil {
		line("Status", "%q", terminal.Sanitize(*s.StatusText))
	}
	if s.Pid != nil {
		line("Main PID", "%d%s", *s.Pid, report.Shown(s.Uptime, func(seconds float64) string {
			return ", up " + words.Coarse(time.Duration(seconds*float64(time.Second)))
		}))
	}
	if s.Exit != nil {
		line("Last exit", "%s, %s", exitText(s.Exit), at(s.Exit.At, now))
	}
	if s.NextIn != nil {
		line("Next start", "in %s", report.Seconds(*s.NextIn))
	}
	if s.Restarts > 0 {
		line("Restarts", "%d", s.Restarts)
	}
	processes, threads := 0, 0
	for _, t := range trees {
		if !t.Unattributed {
			for _, p := range t.Processes {
				processes++
				threads += p.Threads
			}
		}
	}
	if processes > 0 {
		of := "1 process"
		if processes > 1 {
			of = fmt.Sprintf("%d processes", processes)
		}
		line("Tasks", "%d in %s%s", threads, of, limit(most.Tasks, ""))
	}
	if s.RSS != nil {
		line("Memory", "%s%s", report.Memory(*s.RSS), limit(most.Memory, ""))
	}
	if s.CPU != nil {
		line("CPU", "%s%s", report.CPUTime(*s.CPU), limit(most.CPU, "of a CPU"))
	}
	if s.LogFile != nil {
		line("Log", "%s", terminal.Sanitize(strings.TrimSuffix(*s.LogFile+", "+s.Stderr, ", ")))
	} else if s.LogSink != "" {
		line("Log", "%s", s.LogSink)
	}
	for _, t := range trees {
		if len(t.Processes) == 0 {
			continue
		}
		head := "cgroup " + t.Cgroup
		switch {
		case t.Unattributed:
			head = "not attributed to a program"
		case t.Cgroup == "":
			head = "no cgroup"
		}
		line("Processes", "%s", terminal.Sanitize(head))
		_, tree, _ := strings.Cut(report.Tree([]control.ProcessTree{t}), "\n")
		for process := range strings.Lines(tree) {
			b.WriteString("           " + process)
		}
	}
	return b.String()
}

// startsWith says whether the instance starts with superd, and who decided so.
func startsWith(s *control.Status) string {
	text := "starts with superd"
	if !s.Autostart {
		text = "does not start with superd"
	}
	if s.Enablement != "" {
		text += " (" + s.Enablement + " by an operator)"
	}
	return text
}

// at returns a time and how long ago it was.
func at(t, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", t.Local().Format("Mon 2006-01-02 15:04:05 MST"), words.Coarse(max(now.Sub(t), 0)))
}

func exitText(e *control.Exit) string {
	switch {
	case e.Code != nil:
		return "status " + strconv.Itoa(*e.Code)
	case e.Signal != nil:
		return "killed by " + *e.Signal
	}
	return "unknown"
}

// limit returns a limit of the configuration with its unit, "" for none.
func limit(value any, unit string) string {
	if value == nil {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintf(" (limit: %v %s", value, unit), " ") + ")"
}
