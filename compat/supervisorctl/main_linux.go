package supervisorctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"superd/compat/supervisor"
	"superd/control"
	"superd/control/locate"
)

// Name is the name under which superd is the command supervisorctl.
const Name = "supervisorctl"

const usage = `supervisorctl -- control programs run by superd.

Usage: supervisorctl [options] [action [arguments]]

Options:
  -c, --configuration FILE   superd.toml, or the directory of the control socket
  -i, --interactive          start an interactive shell after executing commands
  -h, --help                 print this usage message and exit
  -s, --serverurl, -u, --username, -p, --password and -r, --history-file are accepted and ignored

Without an action it starts an interactive shell. "help" lists the actions.`

// Main runs a command line of supervisorctl, without its name, and returns its exit status.
func Main(ctx context.Context, args []string, in io.Reader, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet(Name, pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SetInterspersed(false)
	conf := flags.StringP("configuration", "c", "", "")
	interactive := flags.BoolP("interactive", "i", false, "")
	for name, short := range map[string]string{"serverurl": "s", "username": "u", "password": "p", "history-file": "r"} {
		flags.StringP(name, short, "", "")
	}
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(stdout, usage)
		return 0
	}
	if err != nil {
		fmt.Fprintf(stderr, "Error: %v\nFor help, use supervisorctl -h\n", err)
		return statusInvalid
	}
	file, runtimeDir := "", ""
	switch info, err := os.Stat(*conf); {
	case err == nil && info.IsDir():
		runtimeDir = *conf
	case strings.HasSuffix(*conf, ".toml"):
		file = *conf
	case *conf != "": // that of supervisord, which scripts name
		fmt.Fprintf(stderr, "supervisorctl: superd does not use %s; see superd check\n", *conf)
	}
	socket, err := locate.Socket(file, runtimeDir)
	if err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
		return statusInvalid
	}
	client := control.NewClient(socket)
	c := Controller{
		Supervisor: supervisor.New(client),
		Out:        stdout,
		Pid: func(ctx context.Context) (int, error) {
			v, err := client.Version(ctx)
			return v.Pid, err
		},
		Shutdown: func(ctx context.Context) error {
			_, err := client.Shutdown(ctx)
			return err
		},
	}
	status := 0
	if flags.NArg() > 0 {
		status = c.Run(ctx, flags.Args())
	}
	if flags.NArg() == 0 || *interactive {
		status = c.Interact(ctx, in)
	}
	return status
}
