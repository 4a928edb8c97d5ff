// Package attach has the command that attaches to the terminal of a program.
package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"superd/control"
	"superd/internal/terminal"
)

// A Client returns a client of the superd that the flags of a command select.
type Client func() (*control.Client, error)

// usualKeys detach, as those of docker do.
const usualKeys = "ctrl-p,ctrl-q"

// Command returns the command attach. complete completes the name of an instance.
func Command(connect Client, complete cobra.CompletionFunc) *cobra.Command {
	var detach string
	cmd := &cobra.Command{
		Use:   "attach NAME",
		Short: "Attach to the terminal of a program",
		Long: `Attach shows what a program with pty = true writes from now on, and passes what is typed to it,
Ctrl-C too. The size of the program's terminal becomes that of this one. Several may be attached.
The detach keys end attach, and not the program. A restart of the program does not end attach; the
end of superd does, with exit status 1: attach again then.`,
		Example: `  superd ctl attach console
  superd ctl attach --detach-keys ctrl-a,d console`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := parseKeys(detach)
			if err != nil {
				return err
			}
			if !terminal.IsTerminal(os.Stdin) || !terminal.IsTerminal(os.Stdout) {
				return fmt.Errorf("attach: standard input and output must be a terminal: to read only use `superd ctl logs -f %s`", args[0])
			}
			client, err := connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			a, err := client.Attach(ctx, args[0])
			if err != nil {
				return fmt.Errorf("attach: %w", err)
			}
			defer a.Close()
			if err := run(a, keys, strings.ReplaceAll(detach, ",", " ")); err != nil {
				if errors.Is(err, context.Canceled) {
					return errors.New("attach: interrupted; the program goes on")
				}
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&detach, "detach-keys", usualKeys, "`keys` that end attach")
	return cmd
}

// run connects the terminal of this process with a, until the detach keys. keys are called shown.
func run(a *control.Attachment, keys []byte, shown string) error {
	first, err := a.Receive()
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	stdin := int(os.Stdin.Fd())
	usual, err := term.MakeRaw(stdin)
	if err != nil {
		return fmt.Errorf("set terminal to raw mode: %w", err)
	}
	defer func() { _ = term.Restore(stdin, usual) }()
	fmt.Fprintf(os.Stdout, "attached to %s; %s detaches\r\n", first.Name, shown)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	resized <- syscall.SIGWINCH // the size of now
	go func() {
		for range resized { // ends with this process
			if columns, rows, err := term.GetSize(stdin); err == nil {
				_ = a.Send(control.Typed{Columns: uint16(columns), Rows: uint16(rows)})
			}
		}
	}()
	ended := make(chan error, 2)
	go func() { ended <- show(a, first) }()
	go func() {
		if typed(a, &matcher{keys: keys}) {
			ended <- nil
		}
	}()
	err = <-ended
	if err == nil {
		fmt.Fprintf(os.Stdout, "\r\ndetached from %s; it goes on\r\n", first.Name)
		return nil
	}
	fmt.Fprint(os.Stdout, "\r\n")
	if errors.Is(err, control.ErrLost) {
		return fmt.Errorf("attach: superd was killed, upgraded or has ended: see `superd ctl status %s`, and attach again", first.Name)
	}
	return err
}

// show shows what the program writes, and how many are attached.
func show(a *control.Attachment, line control.Attached) (err error) {
	for alone := true; ; {
		if line.Clients > 1 || line.Clients == 1 && !alone {
			fmt.Fprintf(os.Stdout, "\r\n%d attached\r\n", line.Clients)
			alone = line.Clients == 1
		}
		if _, err := os.Stdout.Write(line.Output); err != nil {
			return fmt.Errorf("attach: %w", err)
		}
		if line, err = a.Receive(); err != nil {
			return err
		}
	}
}

// typed passes on what is typed, and reports whether it ended with the detach keys.
func typed(a *control.Attachment, keys *matcher) bool {
	buf := make([]byte, 1024)
	for {
		n, err := os.Stdin.Read(buf)
		text, detach := keys.pass(buf[:n])
		if len(text) > 0 && a.Send(control.Typed{Input: text}) != nil {
			return false // the reader has the reason
		}
		if detach {
			return true
		}
		if err != nil {
			return true
		}
	}
}
