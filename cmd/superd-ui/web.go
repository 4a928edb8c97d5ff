package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"superd/control"
	"superd/control/locate"
	"superd/control/remote"
	"superd/web"
)

const (
	usualListen = "127.0.0.1:9001"
	hostTimeout = 15 * time.Second // for a connection to another host
)

// webFlags are the flags of `superd web`.
type webFlags struct {
	config, runtimeDir string
	listen             string
	token, viewerToken string // files
	tlsCert, tlsKey    string
	names, hosts       []string
	readOnly, open     bool
}

func newWebCommand() *cobra.Command {
	var f webFlags
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show programs in a browser",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.serve(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "configuration `file`")
	flags.StringVar(&f.runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	flags.StringVar(&f.listen, "listen", usualListen, "`address` to listen on")
	flags.StringVar(&f.token, "token-file", "", "`file` of the token for operators")
	flags.StringVar(&f.viewerToken, "viewer-token-file", "", "`file` of the token for viewers")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "certificate `file`")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`file` of its key")
	flags.StringSliceVar(&f.names, "hosts", nil, "`names` by which browsers may call this server")
	flags.StringSliceVar(&f.hosts, "host", nil, "`hosts` whose programs to show by ssh, as in local,admin@a,b")
	flags.BoolVar(&f.readOnly, "read-only", false, "let nobody change anything")
	flags.BoolVar(&f.open, "open", false, "open a browser that is logged in")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return cmd
}

// serve serves the pages until SIGTERM or SIGINT.
func (f *webFlags) serve(ctx context.Context, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(tint.NewTextHandler(stderr, &tint.Options{NoColor: true}))
	options := web.Options{Version: "dev", ReadOnly: f.readOnly, Names: f.names, TLS: f.tlsCert != "", Log: log}
	var err error
	if options.Hosts, err = f.superds(); err != nil {
		return usageError{err}
	}
	path := cmp.Or(f.token, defaultTokenFile())
	if options.Tokens.Operator, _, err = web.LoadToken(path); err != nil {
		return err
	}
	if f.viewerToken != "" {
		if options.Tokens.Viewer, _, err = web.LoadToken(f.viewerToken); err != nil {
			return err
		}
	}
	var certificate *web.Certificate
	scheme := "http"
	if f.tlsCert != "" {
		scheme = "https"
		if certificate, err = web.LoadCertificate(f.tlsCert, f.tlsKey, log); err != nil {
			return err
		}
	}
	listener, err := web.Listen(ctx, f.listen, certificate != nil)
	if err != nil {
		return err
	}
	options.Port = listener.Addr().(*net.TCPAddr).Port
	server := web.New(ctx, options).HTTP()
	if certificate != nil {
		server.TLSConfig = certificate.Config()
	}
	address := (&url.URL{Scheme: scheme, Host: listener.Addr().String(), Path: "/"}).String()
	fmt.Fprintf(stderr, "superd: pages at %s, the token is in %s\n", address, path)
	if f.open {
		address += "#token=" + options.Tokens.Operator
		fmt.Fprintln(stderr, address)
		openBrowser(ctx, address)
	}
	go func() {
		<-ctx.Done()
		ended, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_ = server.Shutdown(ended) // what is left ends with the process
	}()
	if certificate != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve pages: %w", err)
	}
	return nil
}

// superds returns how to connect to each superd.
func (f *webFlags) superds() (all []web.Host, err error) {
	const here = "local"
	names := f.hosts
	if len(names) == 0 {
		names = []string{here}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if name == here {
			socket, err := locate.Socket(f.config, f.runtimeDir)
			if err != nil {
				return nil, err
			}
			all = append(all, web.Host{Name: name, Dial: control.NewClient(socket).Connect})
			continue
		}
		if err := remote.CheckName(name); err != nil {
			return nil, fmt.Errorf("read --host: %w", err)
		}
		h := &remote.Host{Name: name, SSH: os.Getenv("SUPERD_SSH"), Timeout: hostTimeout}
		all = append(all, web.Host{Name: name, Dial: h.Dial})
	}
	return all, nil
}

// defaultTokenFile returns the usual path of the token file.
func defaultTokenFile() string {
	const name = "web-token"
	if dir := os.Getenv("STATE_DIRECTORY"); filepath.IsAbs(dir) {
		return filepath.Join(filepath.SplitList(dir)[0], name)
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/superd", name)
	}
	home := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(home) {
		home = filepath.Join(os.Getenv("HOME"), ".local/state")
	}
	return filepath.Join(home, "superd", name)
}

// openBrowser opens the address, if the desktop has a command for that.
func openBrowser(ctx context.Context, address string) {
	if path, err := exec.LookPath("xdg-open"); err == nil {
		cmd := exec.CommandContext(ctx, path, address)
		if cmd.Start() == nil {
			go func() { _ = cmd.Wait() }() // whether it opens one is seen
		}
	}
}
