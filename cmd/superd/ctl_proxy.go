package main

import (
	"io"
	"net"

	"github.com/spf13/cobra"

	"superd/control/remote"
)

func newProxyCommand(flags *ctlFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "proxy",
		Short: "Connect standard input and output to superd",
		Long: `Proxy copies between its standard input and output and the control socket, for a client on another
host. superd ctl --host HOST executes it there by ssh. It ends when either side does.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.client()
			if err != nil {
				return err
			}
			conn, err := client.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			return proxy(conn, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// proxy copies between conn and the other two until one of them ends.
func proxy(conn net.Conn, stdin io.Reader, stdout io.Writer) error {
	if _, err := io.WriteString(stdout, remote.Greeting); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { _, err := io.Copy(conn, stdin); ended <- err }()
	go func() { _, err := io.Copy(stdout, conn); ended <- err }()
	return <-ended
}
