package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"superd/control"
	"superd/control/locate"
	"superd/metrics"
)

func newMetricsCommand() *cobra.Command {
	var config, runtimeDir, output, listen string
	var openMetrics bool
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print or serve metrics for Prometheus",
		Long: `Metrics prints the metrics of the running superd in the text format of Prometheus. With --output it
replaces a file, for the textfile directory of node_exporter. With --listen it serves them over HTTP
at /metrics until it is ended. It listens on the loopback interface unless the address names another
one; whoever reaches the address may read the metrics.

If superd does not answer, the file and the answer have superd_up 0.`,
		Example: `  superd metrics
  superd metrics -o /var/lib/prometheus/node-exporter/superd.prom
  superd metrics --listen 127.0.0.1:9002`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			socket, err := locate.Socket(config, runtimeDir)
			if err != nil {
				return usageError{err}
			}
			client := control.NewClient(socket)
			if listen != "" {
				return serve(cmd.Context(), listen, metrics.Handler(client.Counters), cmd.ErrOrStderr())
			}
			return write(cmd.Context(), client, output, openMetrics, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&config, "config", "c", "", "configuration `file` that names the runtime directory")
	flags.StringVar(&runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	flags.BoolVar(&openMetrics, "openmetrics", false, "print OpenMetrics")
	flags.StringVarP(&output, "output", "o", "", "replace this `file` instead of printing")
	flags.StringVar(&listen, "listen", "", "serve on this `address`, such as 127.0.0.1:9002")
	cmd.MarkFlagsMutuallyExclusive("listen", "output")
	cmd.MarkFlagsMutuallyExclusive("listen", "openmetrics")
	return cmd
}

// write prints the metrics, or replaces the file output.
func write(ctx context.Context, client *control.Client, output string, openMetrics bool, stdout io.Writer) error {
	c, err := client.Counters(ctx)
	if output == "" {
		if err != nil {
			return err
		}
		return metrics.Write(stdout, &c, openMetrics)
	}
	counters := &c
	if err != nil {
		counters = nil
	}
	return errors.Join(err, metrics.WriteFile(output, func(w io.Writer) error {
		return metrics.Write(w, counters, openMetrics)
	}))
}

// Limits on clients.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 5 * time.Minute
	endTimeout    = time.Second
)

// serve serves h at /metrics of address until SIGTERM or SIGINT.
func serve(ctx context.Context, address string, h http.Handler, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return usageError{fmt.Errorf("read --listen: %w", err)}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	fmt.Fprintf(stderr, "superd: metrics at http://%s/metrics\n", listener.Addr())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	server := http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}
	go func() {
		<-ctx.Done()
		ended, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_ = server.Shutdown(ended) // what is left ends with the process
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}
