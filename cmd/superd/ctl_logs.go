package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/terminal"
)

// usualLines is how many lines are shown of each program when nothing else says what is wanted.
const usualLines = 30

func newLogsCommand(flags *ctlFlags) *cobra.Command {
	var lines, run string
	var asJSON bool
	var query control.LogQuery
	cmd := &cobra.Command{
		Use:   "logs NAME...",
		Short: "Show the output of programs",
		Long: `Logs shows the last lines that programs have printed, in rotated and compressed files, too. Lines of several
programs carry their names and come in the order of their times, as far as these are known: the log formats
text and json have them. A line of a raw log counts as old as its file. What could upset a terminal is shown
escaped, colours are left out and tabs become spaces, unless --raw is given. Of a line longer than 16 KiB --grep
matches pieces of that size, each by itself; a piece is shown like a line where its neighbours don't match, or
where several programs are shown.

With --follow it goes on with what is printed, through rotations and restarts, also by programs that come to
bear such a name later, and when superd is upgraded or crashes, until superd ends.`,
		Args:              needArgs("NAME"),
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			n, err := strconv.Atoi(lines)
			switch {
			case lines == "all", lines == "" && (query.Since != "" || run != "" || query.Grep != ""):
				n, err = -1, nil
			case lines == "":
				n, err = usualLines, nil
			}
			if err != nil || n < 0 && lines != "" && lines != "all" {
				return usageError{fmt.Errorf("read --lines: want a number or all, got %q", lines)}
			}
			if asJSON && query.Raw {
				return usageError{errors.New("read flags: --json and --raw do not go together")}
			}
			if query.Since, err = sinceTime(query.Since, time.Now()); err != nil {
				return usageError{err}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			query.Names, query.Lines, query.Run = names, n, run
			p := newLogPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, query.Raw)
			p.pieces = query.Grep != ""
			return ofFlags(showLogs(cmd.Context(), client, query, p))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&lines, "lines", "n", "", "show this `many` lines of each program, or all (default 30; all with --since, --run or --grep)")
	f.BoolVarP(&query.Follow, "follow", "f", false, "go on with what is printed from now on")
	f.StringVar(&query.Since, "since", "", "show only what is not older: a duration such as 10m, or a `time`: 19:33, 2026-11-21, '2026-11-21 07:20' or, with its zone, as in RFC 3339")
	f.StringVar(&run, "run", "", "show one run: 0 the newest, -1 the one before, or the `run`'s id")
	f.StringVar(&query.Grep, "grep", "", "show only lines that match this regular `expression`")
	f.BoolVar(&asJSON, "json", false, "print a JSON object a line")
	f.BoolVar(&query.Raw, "raw", false, "print lines as they stand in the file, byte for byte")
	return cmd
}

// sinceTime returns the value of --since as superd takes it: a duration, or a time with its zone. One without is the user's, of the clock alone the last such time.
func sinceTime(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if _, err := time.ParseDuration(text); err == nil {
		return text, nil
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return text, nil
	}
	for _, form := range []string{"15:04", time.TimeOnly, time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		t, err := time.ParseInLocation(form, text, now.Location())
		if err != nil {
			continue
		}
		if t.Year() == 0 {
			day := now
			clock := func() time.Time {
				return time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
			}
			if day = now; clock().After(now) {
				day = now.AddDate(0, 0, -1)
			}
			t = clock()
		}
		return t.Format(time.RFC3339Nano), nil
	}
	return "", fmt.Errorf("read --since: want a duration such as 10m, or a time such as 19:33, 2026-11-21, '2026-11-21 07:20' or 2026-11-21T07:20:45Z, got %q", text)
}

// ofFlags has an error call by their flags what superd calls by parameters.
func ofFlags(err error) error {
	if refused, ok := errors.AsType[*control.Error](err); ok {
		if rest, ok := strings.CutPrefix(refused.Message, "parameter "); ok {
			refused.Message = "read --" + rest
		}
	}
	return err
}

// showLogs prints what the query asks for.
func showLogs(ctx context.Context, client *control.Client, query control.LogQuery, p *logPrinter) error {
	if !p.json {
		instances, err := client.Brief(ctx, query.Names)
		if err != nil {
			return err
		}
		for _, b := range instances {
			p.know(b.Name)
		}
	}
	err := client.Logs(ctx, query, p.print, p.out.Flush)
	return errors.Join(err, p.end())
}

// A logPrinter prints lines of programs.
type logPrinter struct {
	out, stderr *bufio.Writer
	json, raw   bool
	lines       *terminal.LinePrinter
	programs    map[string]*terminal.ProgramLines // by instance: those that are known of
	open        string                            // whose line was begun, and has no end yet; "": nobody's
	pieces      bool                              // of lines: not all that is in the file is shown
}

func newLogPrinter(stdout, stderr io.Writer, asJSON, raw bool) *logPrinter {
	p := &logPrinter{out: bufio.NewWriterSize(stdout, 64<<10), stderr: bufio.NewWriter(stderr), json: asJSON, raw: raw,
		programs: map[string]*terminal.ProgramLines{}}
	p.lines = terminal.NewLinePrinter(p.out, terminal.Output{Colour: terminal.Detect(stdout, os.Getenv).Colour})
	return p
}

// know tells that there is an instance of this name. Lines carry names when there is more than one.
func (p *logPrinter) know(instance string) *terminal.ProgramLines {
	known := p.programs[instance]
	if known == nil {
		known = p.lines.Program(instance)
		p.programs[instance] = known
	}
	return known
}

// print prints a line, or part of one.
func (p *logPrinter) print(sent []byte, l *control.LogLine) error {
	if p.json {
		if l.Line == nil && l.Note == nil {
			return nil
		}
		_, err := p.out.Write(sent)
		return err
	}
	program := p.know(l.Instance)
	switch {
	case l.Note != nil:
		fmt.Fprintf(p.stderr, "superd: %s: %s\n", terminal.Sanitize(l.Instance), terminal.Sanitize(*l.Note))
		return errors.Join(p.out.Flush(), p.stderr.Flush())
	case l.Line == nil:
		return nil
	}
	text := l.Text()
	if !p.raw {
		text = terminal.Sanitize(text)
	}
	whose := l.Instance + "/"
	if l.Stream != nil {
		whose += *l.Stream
	}
	several := len(p.programs) > 1
	if goesOn := l.GoesOn && p.open == whose && !several; !goesOn {
		if !p.raw && l.Time != nil && l.Stream != nil {
			mark := ""
			if l.Partial && (several || p.pieces) {
				mark = "+"
			}
			text = *l.Time + " " + terminal.Sanitize(*l.Stream) + mark + " " + text
		}
		if p.open != "" && (!p.raw || p.pieces || several) {
			p.out.WriteByte('\n') // what fails once fails again
		}
	}
	p.open = ""
	if several {
		_, err := program.Write([]byte(text + "\n"))
		return err
	}
	if l.Partial {
		p.open = whose
	} else {
		text += "\n"
	}
	_, err := p.out.WriteString(text)
	return err
}

// end ends a line that has no end.
func (p *logPrinter) end() error {
	if p.open != "" && !p.raw {
		p.out.WriteByte('\n')
	}
	return p.out.Flush()
}
