package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"superd/cmd/superd/report"
	"superd/cmd/superd/systemctl"
	"superd/control"
	"superd/internal/terminal"
)

type statusFlags struct {
	json, brief, watch, long bool
	table                    bool // --long=false
}

func newStatusCommand(flags *ctlFlags) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show the state of programs",
		Long: `Status shows all programs as a table, and those of a group or a glob. Programs and instances that
are named are shown in detail: each instance with its processes, what they use, and its last lines.
--long shows all in detail, and --long=false none.

The exit status is 3 if a named program is not up or has no instances.`,
		ValidArgsFunction: flags.completeNames,
		RunE: func(cmd *cobra.Command, names []string) error {
			if f.brief && f.watch {
				return usageError{errors.New("read flags: --brief and --watch cannot be combined")}
			}
			f.table = cmd.Flags().Changed("long") && !f.long
			if f.long && (f.brief || f.watch || f.json) {
				return usageError{errors.New("read flags: --long cannot be combined with --brief, --watch or --json")}
			}
			client, err := flags.client()
			if err != nil {
				return err
			}
			switch stdout := cmd.OutOrStdout(); {
			case f.watch:
				return watchStatus(cmd.Context(), client, names, f.json, cmd.InOrStdin(), stdout)
			case f.brief:
				return showBrief(cmd.Context(), client, names, f.json, stdout)
			default:
				return showStatus(cmd.Context(), client, names, f, stdout, cmd.ErrOrStderr())
			}
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON array; with --watch one on each line")
	cmd.Flags().BoolVar(&f.brief, "brief", false, "show names, states and pids only")
	cmd.Flags().BoolVarP(&f.long, "long", "l", false, "show each instance in detail (=false: as a table)")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false,
		"update the table on each change, until q or Ctrl-C")
	return cmd
}

func showStatus(ctx context.Context, client *control.Client, names []string, f statusFlags, stdout, stderr io.Writer) error {
	all, err := client.Status(ctx, names)
	if err != nil {
		return err
	}
	empty := systemctl.Empty(names, all)
	systemctl.PrintEmpty(stderr, empty)
	named := systemctl.Single(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(empty, name) }), all)
	_, onHosts := stdout.(*report.Host) // of which there is one table
	switch {
	case f.json:
		err = report.JSON(stdout, all)
	case len(all) == 0 && len(empty) > 0:
	case !onHosts && !f.table && (f.long || named):
		err = systemctl.PrintDetails(ctx, client, names, all, stdout, lastLines(stdout, stderr))
	default:
		err = report.Table(stdout, report.StatusTable(all, time.Now(), palette(stdout)))
	}
	if err == nil && len(names) > 0 && (len(empty) > 0 || slices.ContainsFunc(all, func(s control.Status) bool { return !s.Up() })) {
		return exitStatus(statusNotUp)
	}
	return err
}

func showBrief(ctx context.Context, client *control.Client, names []string, asJSON bool, stdout io.Writer) error {
	all, err := client.Brief(ctx, names)
	if err != nil {
		return err
	}
	if asJSON {
		err = report.JSON(stdout, all)
	} else {
		err = report.Table(stdout, report.BriefTable(all, palette(stdout)))
	}
	if err == nil && len(names) > 0 && (len(all) == 0 || slices.ContainsFunc(all, func(b control.Brief) bool { return !b.Up() })) {
		return exitStatus(statusNotUp)
	}
	return err
}

// palette returns the colours of names on w, nil if w shows no colours.
func palette(w io.Writer) *terminal.Palette {
	if !terminal.Detect(w, os.Getenv).Colour {
		return nil
	}
	return terminal.NewPalette()
}

// watchStatus shows the status until q or Ctrl-C is pressed, and then returns nil.
func watchStatus(ctx context.Context, client *control.Client, names []string, asJSON bool, stdin io.Reader, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	var err error
	switch {
	case asJSON:
		err = client.WatchJSON(ctx, names, func(line []byte) error {
			_, err := stdout.Write(line)
			return err
		})
	case terminal.Detect(stdout, os.Getenv).Terminal:
		err = watchOnScreen(ctx, client, names, stdin, stdout)
	default:
		palette := terminal.NewPalette()
		err = client.Watch(ctx, names, func(all []control.Status) error {
			return drawStatus(stdout, terminal.Output{}, all, palette)
		})
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err == nil {
		return fmt.Errorf("watch status: %w any more", control.ErrNoSuperd)
	}
	return err
}

// watchOnScreen redraws the status on each change, and each second for the clock, until q is
// pressed. It restores the terminal when it ends or is suspended.
func watchOnScreen(ctx context.Context, client *control.Client, names []string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	newest := make(chan []control.Status)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Watch(ctx, names, func(all []control.Status) error {
			select {
			case newest <- all:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	keys, _ := terminal.OpenKeys(stdin)
	defer keys.Close()
	var typed <-chan byte
	if keys != nil {
		typed = keys.C
	}
	screen := terminal.OpenScreen(stdout)
	defer screen.Close()
	suspended := make(chan os.Signal, 1)
	signal.Notify(suspended, syscall.SIGTSTP) // Ctrl-Z
	defer signal.Stop(suspended)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	palette := terminal.NewPalette()
	var all []control.Status
	for {
		select {
		case all = <-newest:
		case <-clock.C:
		case err := <-ended:
			return err
		case key := <-typed:
			if key == 'q' || key == 'Q' {
				return context.Canceled
			}
			continue
		case <-suspended:
			keys.Close()
			_ = screen.Close()
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return fmt.Errorf("suspend: %w", err)
			}
			if keys != nil {
				keys.Resume()
			}
			screen = terminal.OpenScreen(stdout)
		}
		o := terminal.Detect(stdout, os.Getenv)
		if err := screen.Draw(o, statusLines(o, all, palette)); err != nil {
			return err
		}
	}
}

// drawStatus prints the status below what w shows already.
func drawStatus(w io.Writer, o terminal.Output, all []control.Status, palette *terminal.Palette) error {
	_, err := io.WriteString(w, strings.Join(statusLines(o, all, palette), "\n")+"\n\n")
	return err
}

// statusLines returns a line with the time and a summary, then the table.
func statusLines(o terminal.Output, all []control.Status, palette *terminal.Palette) []string {
	now := time.Now()
	up := 0
	for i := range all {
		if all[i].Up() {
			up++
		}
	}
	head := fmt.Sprintf("%s  %s, %d up", now.Format(time.TimeOnly), count(len(all), "instance"), up)
	if o.Width > 0 {
		head = terminal.Cut(head, o.Width)
	}
	return append([]string{head, ""}, report.StatusTable(all, now, palette).Lines(o)...)
}
