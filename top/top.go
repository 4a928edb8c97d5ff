// Package top is the screen of `superd top`: a table of programs that follows what happens, with
// panes for their output, events, processes and dependencies.
//
// A [Model] holds all that is shown. It belongs to the goroutine of bubbletea, which passes it a
// message at a time and draws what its View returns, at most [framesPerSecond] times a second. What
// waits for superd runs in goroutines of its own and comes back as a message: a feed for each superd
// (feed.go), a stream for the open pane (stream.go), and one request at a time (requests.go). None of
// them does anything while nothing changes.
package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"superd/control"
)

const (
	framesPerSecond = 10

	// endTimeout bounds the wait for a terminal that takes no output any more.
	endTimeout = 2 * time.Second
)

// A Client is the part of [control.Client] that the screen needs.
type Client interface {
	WatchBrief(ctx context.Context, names []string, f func(line []byte) error) error
	Status(ctx context.Context, names []string) ([]control.Status, error)
	Logs(ctx context.Context, q control.LogQuery, f func(*control.LogBlock) error, idle func() error) error
	Events(ctx context.Context, q control.EventQuery, f func(line []byte) error) error
	Why(ctx context.Context, names []string) ([]control.Why, error)
	Tree(ctx context.Context, names []string) ([]control.ProcessTree, error)
	Config(ctx context.Context, names []string) ([]control.Configured, error)
	Command(ctx context.Context, verb string, names []string, wait bool, timeout time.Duration) ([]control.CommandResult, error)
	RestartRolling(ctx context.Context, names []string, canary int, timeout time.Duration) ([]control.CommandResult, error)
	Signal(ctx context.Context, signal string, names []string) ([]control.CommandResult, error)
}

// A Source is one superd whose programs are shown.
type Source struct {
	Host   string // "" for the superd of this machine
	Client Client
}

// Options say what is shown, and where.
type Options struct {
	Sources []Source // at least one
	Names   []string // programs, instances, groups, globs; none: all
	Input   *os.File // both are the terminal
	Output  *os.File
	Colour  bool
}

// Run shows the screen until the user quits it or a signal ends it, which is no error. The terminal
// is then as before.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := term.GetState(int(o.Input.Fd()))
	if err != nil {
		return fmt.Errorf("read settings of terminal: %w", err)
	}
	m := newModel(ctx, o)
	p := tea.NewProgram(m, tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithFPS(framesPerSecond),
		tea.WithoutSignalHandler())
	m.send = p.Send
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		go p.Quit()
		select {
		case <-ctx.Done():
		case <-time.After(endTimeout):
			// The terminal takes no output, so bubbletea waits for it.
			_ = term.Restore(int(o.Input.Fd()), before)
			os.Exit(1)
		}
	}()
	for i := range o.Sources {
		go m.guard(func() { m.follow(ctx, i) })
	}
	_, err = p.Run()
	if errors.Is(err, tea.ErrProgramPanic) {
		_ = term.Restore(int(o.Input.Fd()), before)
		return errors.New("superd top broke: please report what stands above")
	}
	return err
}

// panicked carries the panic of a goroutine to that of bubbletea, which restores the terminal.
type panicked struct{ value any }

// guard calls f, and passes on its panic.
func (m *Model) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			m.send(panicked{v})
		}
	}()
	f()
}
