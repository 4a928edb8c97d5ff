package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/internal/terminal"
)

// defaultLines is how many lines of each program are shown if no flag selects lines.
const defaultLines = 30

func newLogsCommand(flags *ctlFlags) *cobra.Command {
	var lines, run, clearing string
	var asJSON, times bool
	var query control.LogQuery
	cmd := &cobra.Command{
		Use:   "logs [NAME...]",
		Short: "Show the output of programs",
		Long: `Logs shows the last lines that programs have printed, also from rotated and compressed files. Lines
of several programs are prefixed with their names and sorted by time. The log formats text and json
record the time of each line. Raw lines have a time if they come while --follow waits for them; an
older one counts as old as its file.

Control characters are escaped, colours removed and tabs expanded, unless --raw is given. Of a line
longer than 16 KiB, --grep matches pieces of that size separately. A piece is shown like a line if
the pieces beside it do not match, or if several programs are shown.

A terminal shows all times that are known. Other output has only those that the log records, unless
--times is given.

With --follow it continues with new lines, through rotations, restarts of programs, and crashes and
upgrades of superd. It includes matching programs that are added later. It ends when superd ends. A
terminal that is more than 16 MiB behind skips output, and says how much. All other output gets all
of it, unless rotation removes it before.

With --clear it shows nothing and empties the log files of the programs that are named; =all removes
rotated files, too.`,
		Example: `  superd logs                       all programs
  superd logs -f web
  superd logs --since 08:00 --until 08:10 --grep 'error|warn'
  superd logs --run 9f86d081 web    the run that superd history shows with this id`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if clearing != "" {
				return clearLogs(cmd, flags, names, clearing)
			}
			usual := defaultLines
			if query.Since != "" || query.Until != "" || run != "" || query.Grep != "" {
				usual = allLines
			}
			n, err := lineNumber(lines, usual)
			if err != nil {
				return usageError{err}
			}
			if asJSON && query.Raw {
				return usageError{errors.New("read flags: --json and --raw cannot be combined")}
			}
			if query.Since, err = parseTime("since", "", query.Since, time.Now()); err != nil {
				return usageError{err}
			}
			if query.Until, err = parseTime("until", "", query.Until, time.Now()); err != nil {
				return usageError{err}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			query.Names, query.Lines, query.Run = names, n, run
			query.Times = times
			query.Skip = query.Follow && terminal.Detect(cmd.OutOrStdout(), os.Getenv).Terminal
			if query.Skip && !cmd.Flags().Changed("times") {
				query.Times = true
			}
			p := newLogPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr())
			if asJSON {
				err := client.LogsJSON(cmd.Context(), query, p.printJSON, p.out.Flush)
				return nameFlag(errors.Join(err, p.out.Flush()))
			}
			p.raw, p.pieces = query.Raw, query.Grep != ""
			p.times = times || !cmd.Flags().Changed("times")
			return nameFlag(showLogs(cmd.Context(), client, query, p))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&lines, "lines", "n", "",
		"show this `many` lines of each program, or all (default 30; all with --since, --until, --run or --grep)")
	f.BoolVarP(&query.Follow, "follow", "f", false, "continue with new lines")
	f.StringVar(&query.Since, "since", "",
		"show nothing older: a duration such as 10m, or a `time` such as 19:33, 2026-11-21, '2026-11-21 07:20' or RFC 3339")
	f.StringVar(&query.Until, "until", "", "show nothing newer; a `time` as for --since")
	f.StringVar(&run, "run", "",
		"show one `run`: 0 the newest, -1 the one before, or its id in the history")
	f.StringVar(&query.Grep, "grep", "", "show only lines that match this regular `expression`")
	f.StringVar(&clearing, "clear", "", "empty `which` log files: current, or all to remove rotated ones, too")
	f.Lookup("clear").NoOptDefVal = "current"
	f.BoolVar(&asJSON, "json", false, "print a JSON object a line")
	f.BoolVar(&times, "times", false,
		"show all times that are known, =false none (default: all in a terminal, elsewhere those that the log records)")
	f.BoolVar(&query.Raw, "raw", false, "print lines as they are in the file, byte for byte")
	return cmd
}

// clearLogs empties the log files of programs. which is the value of --clear.
func clearLogs(cmd *cobra.Command, flags *ctlFlags, names []string, which string) error {
	if which != "current" && which != "all" {
		return usageError{fmt.Errorf("read --clear: want current or all, got %q", which)}
	}
	if len(names) == 0 {
		return usageError{errors.New("read arguments: --clear needs names: '*' for all programs")}
	}
	client, err := flags.client()
	if err != nil {
		return err
	}
	results, err := client.ClearLogs(cmd.Context(), names, which == "all")
	if err != nil {
		return err
	}
	return printResults(results, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// allLines is the number of lines that stands for all.
const allLines = -1

// lineNumber parses the value of --lines. It returns usual if the flag is not given.
func lineNumber(text string, usual int) (int, error) {
	switch text {
	case "":
		return usual, nil
	case "all":
		return allLines, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("read --lines: want a number or all, got %q", text)
	}
	return n, nil
}

// parseTime returns the value of a flag in a form that superd accepts: a duration, or a time with
// its zone. A time without a zone is in the user's zone; a time without a date is the last such
// time before now. more names what else the flag accepts, for the error.
func parseTime(flag, more, text string, now time.Time) (string, error) {
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
	return "", fmt.Errorf("read --%s: want %sa duration such as 10m, or a time such as 19:33, 2026-11-21, "+
		"'2026-11-21 07:20' or 2026-11-21T07:20:45Z, got %q", flag, more, text)
}

// nameFlag replaces the name of a parameter by that of its flag in an error that superd returned.
func nameFlag(err error) error {
	if refused, ok := errors.AsType[*control.Error](err); ok && refused.Parameter != "" {
		refused.Message = "read --" + refused.Parameter + ": " + refused.Problem
	}
	return err
}

// showLogs prints the lines that the query selects.
func showLogs(ctx context.Context, client *control.Client, query control.LogQuery, p *logPrinter) error {
	instances, err := client.Brief(ctx, query.Names)
	if err != nil {
		return err
	}
	for _, b := range instances {
		p.program(b.Name)
	}
	err = client.Logs(ctx, query, p.print, p.out.Flush)
	return errors.Join(err, p.end())
}

// A logPrinter prints lines of programs.
type logPrinter struct {
	out, stderr *bufio.Writer
	raw, times  bool
	lines       *terminal.LinePrinter
	programs    map[string]*terminal.ProgramLines // by instance: those seen so far
	openStream  string                            // instance/stream of a line without an end; or ""
	pieces      bool                              // parts of a line may be left out, see --grep
	text        []byte                            // memory of what is printed at a time
}

func newLogPrinter(stdout, stderr io.Writer) *logPrinter {
	p := &logPrinter{out: bufio.NewWriterSize(stdout, 64<<10), stderr: bufio.NewWriter(stderr),
		programs: map[string]*terminal.ProgramLines{}}
	p.lines = terminal.NewLinePrinter(p.out, terminal.Output{Colour: terminal.Detect(stdout, os.Getenv).Colour})
	return p
}

// program returns the printer of an instance, which it makes on the first call. Lines begin with
// names if there are several instances.
func (p *logPrinter) program(instance string) *terminal.ProgramLines {
	lines := p.programs[instance]
	if lines == nil {
		lines = p.lines.Program(instance)
		p.programs[instance] = lines
	}
	return lines
}

func (p *logPrinter) printJSON(line []byte) error {
	_, err := p.out.Write(line)
	return err
}

// print prints lines, a part of a line or a note.
func (p *logPrinter) print(b *control.LogBlock) error {
	program := p.program(b.Instance)
	if b.Note != nil {
		fmt.Fprintf(p.stderr, "superd: %s: %s\n", terminal.Sanitize(b.Instance), terminal.Sanitize(*b.Note))
		return errors.Join(p.out.Flush(), p.stderr.Flush())
	}
	if b.Text == nil {
		return nil
	}
	several := len(p.programs) > 1
	stream := b.Instance + "/"
	if b.Stream != nil {
		stream += *b.Stream
	}
	prefix := ""
	if continues := b.Continued && p.openStream == stream && !several; !continues {
		prefix = p.prefix(b, several)
		if p.openStream != "" && (!p.raw || p.pieces || several) {
			p.out.WriteByte('\n') // its error comes again with the next write
		}
	}
	p.openStream = ""
	p.text = p.text[:0]
	for rest, more := b.Text, true; more; {
		line := rest
		if more = b.Lines > 1; more {
			line, rest, more = bytes.Cut(rest, []byte{'\n'})
		}
		p.text = append(p.text, prefix...)
		if p.raw {
			p.text = append(p.text, line...)
		} else {
			p.text = append(p.text, terminal.Sanitize(string(line))...)
		}
		p.text = append(p.text, '\n')
	}
	if several {
		_, err := program.Write(p.text)
		return err
	}
	if b.Partial {
		p.openStream = stream
		p.text = p.text[:len(p.text)-1]
	}
	_, err := p.out.Write(p.text)
	return err
}

// prefix returns what precedes each line of a block: its time and stream.
func (p *logPrinter) prefix(b *control.LogBlock, several bool) string {
	if p.raw || !p.times || b.Time == nil {
		return ""
	}
	if b.Stream == nil {
		return *b.Time + " "
	}
	suffix := ""
	if b.Partial && (several || p.pieces) {
		suffix = "+"
	}
	return *b.Time + " " + terminal.Sanitize(*b.Stream) + suffix + " "
}

// end completes a line without an end, and flushes.
func (p *logPrinter) end() error {
	if p.openStream != "" && !p.raw {
		p.out.WriteByte('\n')
	}
	return p.out.Flush()
}
