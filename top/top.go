// Package top is the screen of `superd top`: a table of programs that follows what happens, with
// panes for their output, events, processes and dependencies.
//
// A [Model] holds all that is shown. It belongs to the goroutine of bubbletea, which passes it a
// message at a time. After each the screen is drawn, but at most ten times a second (screen.go).
// What waits for superd runs in goroutines of its own and comes back as a message: a feed for each
// superd (feed.go), a stream for the open pane (stream.go), and one request at a time
// (requests.go). None of them does anything while nothing changes.
package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"superd/control"
)

const (
	framePeriod = 100 * time.Millisecond // at least, from frame to frame

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
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	if err := m.screen.enter(); err != nil {
		return err
	}
	defer m.screen.leave() // also in a panic, whose text is then on the usual screen
	p := tea.NewProgram(m, tea.WithInput(o.Input), tea.WithOutput(o.Output), tea.WithoutRenderer(), tea.WithFPS(1),
		tea.WithoutSignalHandler(), tea.WithoutCatchPanics())
	m.send = p.Send
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ends)
	resizes := make(chan os.Signal, 1)
	signal.Notify(resizes, syscall.SIGWINCH)
	defer signal.Stop(resizes)
	go m.endOn(ctx, ends, p.Quit)
	go m.resizeOn(ctx, resizes, o.Output)
	for i := range o.Sources {
		go m.guard(func() { m.follow(ctx, i) })
	}
	if _, err = p.Run(); err != nil {
		return fmt.Errorf("use terminal: %w", err)
	}
	return nil
}

// endOn calls quit when a signal comes.
func (m *Model) endOn(ctx context.Context, signals <-chan os.Signal, quit func()) {
	select {
	case <-signals:
	case <-ctx.Done():
		return
	}
	go quit()
	select {
	case <-ctx.Done():
	case <-time.After(endTimeout):
		m.screen.restore() // the terminal takes no output, so drawing waits for it
		os.Exit(1)
	}
}

// A sizeMsg has the size of the terminal. That of bubbletea only guesses without its renderer.
type sizeMsg struct{ width, height int }

// resizeOn tells the size of the terminal, now and when a signal comes.
func (m *Model) resizeOn(ctx context.Context, signals <-chan os.Signal, terminal *os.File) {
	for {
		if width, height, err := term.GetSize(int(terminal.Fd())); err == nil {
			m.send(sizeMsg{width, height})
		}
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
	}
}

// panicked carries the panic of a goroutine to bubbletea's, where [Run] restores the terminal.
type panicked struct {
	value any
	stack []byte // of the goroutine
}

// Error implements error, so that the runtime prints it.
func (p panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// guard calls f, and passes on its panic.
func (m *Model) guard(f func()) {
	defer func() {
		if v := recover(); v != nil {
			m.send(panicked{v, debug.Stack()})
		}
	}()
	f()
}

// batch is [tea.Batch] of commands whose panics become messages.
func batch(cmds ...tea.Cmd) tea.Cmd {
	var guarded []tea.Cmd
	for _, cmd := range cmds {
		if cmd != nil {
			guarded = append(guarded, func() (msg tea.Msg) {
				defer func() {
					if v := recover(); v != nil {
						msg = panicked{v, debug.Stack()}
					}
				}()
				return cmd()
			})
		}
	}
	return tea.Batch(guarded...)
}
