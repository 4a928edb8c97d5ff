// Package eventlistener has the command that runs an event listener of supervisord.
package eventlistener

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"superd/compat/listener"
	"superd/compat/supervisor"
	"superd/control"
	"superd/control/locate"
)

// Command returns the command. wrong marks an error in the command line, and exit returns the error
// that ends superd with a status.
func Command(wrong func(error) error, exit func(status int) error) *cobra.Command {
	var o listener.Options
	var events []string
	var runtimeDir string
	cmd := &cobra.Command{
		Use:   "eventlistener --events NAME,... -- COMMAND [ARG...]",
		Short: "Run an event listener of supervisord, as a program",
		Long: `Eventlistener runs a listener of supervisord unchanged. It is the command of a program: it starts
the listener, sends it events on its standard input, and reads its answers from its standard output.
What the listener writes to standard error goes into the program's log. They end together, but of
several --processes, one that ends is started again.

It asks the superd that started it. A listener that calls supervisord's XML-RPC interface needs the
socket: compat.supervisor_socket, and its path in the program's environment as
SUPERVISOR_SERVER_URL. A listener that does not run as superd's user must be in control.viewers.`,
		Example: `  [program.crashmail]
  command = "superd eventlistener --events PROCESS_STATE_EXITED -- crashmail -a -m ops@example.org"
  environment = { SUPERVISOR_SERVER_URL = "unix:///run/supervisor.sock" }`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				return wrong(errors.New("read arguments: the command of the listener is missing: write it after --"))
			}
			if o.Buffer < 1 {
				return wrong(fmt.Errorf("read flags: --buffer is %d: at least 1 event has to fit", o.Buffer))
			}
			if o.Processes < 1 {
				return wrong(fmt.Errorf("read flags: --processes is %d: a pool has at least 1", o.Processes))
			}
			if o.Subscription, err = listener.Subscribe(events); err != nil {
				return wrong(fmt.Errorf("read flags: --events: %w", err))
			}
			if err := complete(&o, args, cmd.ErrOrStderr()); err != nil {
				return wrong(err)
			}
			client, err := connect(runtimeDir)
			if err != nil {
				return wrong(err)
			}
			o.Programs = supervisor.New(client).Programs
			status, err := listener.Run(cmd.Context(), client, &o)
			if err == nil && status != 0 {
				err = exit(status)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringSliceVar(&events, "events", nil, "`names` of the events that it gets, such as PROCESS_STATE,TICK_60")
	flags.IntVar(&o.Buffer, "buffer", 10, "how many `events` wait for it before the oldest is dropped")
	flags.IntVar(&o.Processes, "processes", 1, "how many `processes` of the listener share the events")
	flags.StringSliceVar(&o.LinesOf, "output-of", nil, "`programs` whose output it gets as PROCESS_LOG")
	flags.StringSliceVar(&o.MessagesOf, "messages-of", nil, "`programs` whose output between marks it gets as PROCESS_COMMUNICATION")
	flags.StringVar(&o.Pool, "name", "", "`name` of the listener in the events (default that of the program)")
	_ = cmd.RegisterFlagCompletionFunc("events", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return listener.Names(), cobra.ShellCompDirectiveNoFileComp
	}) // no error: the flag is defined
	flags.StringVar(&runtimeDir, "runtime-dir", "", "`directory` of the control socket (default that of the superd that started it)")
	return cmd
}

// complete sets what the environment of a program says.
func complete(o *listener.Options, command []string, stderr io.Writer) error {
	program := os.Getenv("SUPERD_NAME")
	if o.Pool = cmp.Or(o.Pool, program); o.Pool == "" {
		return errors.New("read environment: SUPERD_NAME is not set: let superd start it as a program, or add --name")
	}
	o.Command, o.Server = command, "superd"
	o.Instance, o.Run = os.Getenv("SUPERD_INSTANCE"), os.Getenv("SUPERD_INVOCATION_ID")
	o.Process = supervisor.ProcessName(cmp.Or(program, o.Pool), o.Instance)
	o.ServerURL = os.Getenv("SUPERVISOR_SERVER_URL")
	o.Log = func(format string, args ...any) {
		fmt.Fprintf(stderr, "superd eventlistener: "+format+"\n", args...)
	}
	return nil
}

// connect returns a client of the superd that started this process, or of that in a directory.
func connect(runtimeDir string) (*control.Client, error) {
	if dir := cmp.Or(runtimeDir, os.Getenv("SUPERD_OWNER")); dir != "" {
		return control.NewClient(filepath.Join(dir, control.SocketName)), nil
	}
	socket, err := locate.Socket("", "")
	if err != nil {
		return nil, err
	}
	return control.NewClient(socket), nil
}
