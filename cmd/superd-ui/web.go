package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"superd/config"
	"superd/config/pages"
	"superd/config/places"
	"superd/control"
	"superd/control/locate"
	"superd/control/remote"
	"superd/internal/terminal"
	"superd/web"
)

const (
	localHost   = "local"          // name of the superd here among hosts
	hostTimeout = 15 * time.Second // for a connection to another host
)

// webFlags are the flags of `superd web`.
type webFlags struct {
	config     string
	runtimeDir string
	hosts      []string
	open       bool

	settings pages.Settings // those of the flags, which overrule the file
}

func newWebCommand() *cobra.Command {
	var f webFlags
	cmd := &cobra.Command{
		Use:   "web",
		Short: "Show programs in a browser",
		Long: `Web serves pages that show programs, their output and events, and that start, stop and change
them. It runs until it is ended, as a process of its own, by hand or as a program of superd. Whoever
has the token may use the pages: web makes one at its first start, in a file that only its user may
read. What the flags do not say is in the table [web] of the configuration.

It listens on the loopback interface only, unless it has a certificate.`,
		Example: `  superd web --open
  superd web --listen 127.0.0.1:9001 --runtime-dir /run/superd
  superd web --host local,admin@a,b
  ssh -L 9001:127.0.0.1:9001 admin@a     then open http://127.0.0.1:9001 here`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := f.configuration(cmd.Flags(), cmd.ErrOrStderr())
			if err != nil {
				return usageError{err}
			}
			return f.serve(cmd.Context(), conf, cmd.ErrOrStderr())
		},
	}
	flags, s := cmd.Flags(), &f.settings
	flags.StringVarP(&f.config, "config", "c", "", "configuration `file`")
	flags.StringVar(&f.runtimeDir, "runtime-dir", "", "`directory` of the control socket")
	flags.StringSliceVar(&f.hosts, "host", nil, "`hosts` whose programs to show by ssh; local is this one")
	flags.BoolVar(&f.open, "open", false, "print the address with the token, and open it in a browser")
	flags.StringVar(&s.Listen, "listen", pages.DefaultListen, "`address` to listen on")
	flags.StringVar(&s.TokenFile, "token-file", "", "`file` of the token for operators")
	flags.StringVar(&s.ViewerTokenFile, "viewer-token-file", "", "`file` of the token for viewers")
	flags.StringVar(&s.TLSCert, "tls-cert", "", "`file` of the certificate")
	flags.StringVar(&s.TLSKey, "tls-key", "", "`file` of its key")
	flags.StringSliceVar(&s.Hosts, "allow-host", nil, "`names` by which browsers may call this server")
	flags.BoolVar(&s.ReadOnly, "read-only", false, "let nobody change anything")
	return cmd
}

// configuration returns the configuration with the settings of the flags. A usual file that is
// missing or may not be read is none; whoever runs this may know the rest by flags.
func (f *webFlags) configuration(flags *pflag.FlagSet, stderr io.Writer) (*config.Config, error) {
	conf := new(config.Config)
	path, err := places.Find(f.config, os.Getenv, os.Geteuid())
	if err == nil {
		conf, err = config.LoadWeb(path)
	}
	if errors.Is(err, fs.ErrPermission) && f.config == "" {
		fmt.Fprintf(stderr, "superd: %s: only flags count\n", terminal.Sanitize(err.Error()))
	} else if err != nil && (path != "" || f.config != "") {
		return nil, err
	}
	if err != nil {
		conf = new(config.Config)
	}
	w, s := &conf.Web, &f.settings
	w.Listen = cmp.Or(w.Listen, pages.DefaultListen)
	for name, overrule := range map[string]func(){
		"listen":            func() { w.Listen = s.Listen },
		"token-file":        func() { w.TokenFile = s.TokenFile },
		"viewer-token-file": func() { w.ViewerTokenFile = s.ViewerTokenFile },
		"tls-cert":          func() { w.TLSCert = s.TLSCert },
		"tls-key":           func() { w.TLSKey = s.TLSKey },
		"allow-host":        func() { w.Hosts = s.Hosts },
		"read-only":         func() { w.ReadOnly = s.ReadOnly },
	} {
		if flags.Changed(name) {
			overrule()
		}
	}
	if (w.TLSCert == "") != (w.TLSKey == "") {
		return nil, errors.New("read flags: --tls-cert and --tls-key need each other: add the other one")
	}
	for _, name := range s.Hosts {
		if err := pages.CheckHostName(name); err != nil {
			return nil, fmt.Errorf("read --allow-host: %w", err)
		}
	}
	if _, _, err := net.SplitHostPort(w.Listen); err != nil {
		return nil, fmt.Errorf("read --listen: %w: write HOST:PORT, such as %s", err, pages.DefaultListen)
	}
	return conf, nil
}

// addressOf returns the address of the pages for a browser here. If the server listens on all
// addresses, it is that of a name that browsers may use.
func addressOf(bound *net.TCPAddr, w *pages.Settings) *url.URL {
	address := &url.URL{Scheme: "http", Host: bound.String(), Path: "/"}
	if w.TLSCert != "" {
		address.Scheme = "https"
	}
	if bound.IP.IsUnspecified() {
		name := "localhost"
		if len(w.Hosts) > 0 {
			name = w.Hosts[0]
		}
		address.Host = net.JoinHostPort(name, strconv.Itoa(bound.Port))
	}
	return address
}

// serve serves the pages until SIGTERM or SIGINT.
func (f *webFlags) serve(ctx context.Context, conf *config.Config, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(tint.NewTextHandler(stderr, &tint.Options{NoColor: true, TimeFormat: time.DateTime}))
	w := &conf.Web
	options := web.Options{Version: version, ReadOnly: w.ReadOnly, Names: w.Hosts, TLS: w.TLSCert != "", Log: log}
	var err error
	if options.Hosts, err = f.superds(); err != nil {
		return usageError{err}
	}
	var certificate *web.Certificate
	if w.TLSCert != "" {
		if certificate, err = web.LoadCertificate(w.TLSCert, w.TLSKey, log); err != nil {
			return err
		}
	}
	listener, err := web.Listen(ctx, w.Listen, certificate != nil)
	if err != nil {
		return err
	}
	defer listener.Close()
	tokenFile := cmp.Or(w.TokenFile, usualTokenFile()) // made only if the pages can be served
	if options.Tokens, err = loadTokens(tokenFile, w.ViewerTokenFile, stderr); err != nil {
		return err
	}
	bound := listener.Addr().(*net.TCPAddr) //nolint:forcetypeassert // web.Listen says so
	options.Port = bound.Port
	server := web.New(ctx, options).HTTP()
	address := addressOf(bound, w)
	fmt.Fprintf(stderr, "superd: pages at %s; the token is in %s\n", address, terminal.Sanitize(tokenFile))
	if f.open {
		address.Fragment = "token=" + options.Tokens.Operator
		fmt.Fprintf(stderr, "superd: log in at %s\n", address)
		defer openBrowser(ctx, address.String(), stderr)()
	}
	shutdown := make(chan struct{})
	go func() {
		defer close(shutdown)
		<-ctx.Done()
		ended, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_ = server.Shutdown(ended) // what is left ends with the process
	}()
	if certificate != nil {
		server.TLSConfig = certificate.Config()
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	stop()
	<-shutdown // answers to requests are sent
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve pages: %w", err)
	}
	return nil
}

// loadTokens reads the token files, and says which it has made.
func loadTokens(operator, viewer string, stderr io.Writer) (tokens web.Tokens, err error) {
	for _, file := range []struct {
		path string
		into *string
	}{{operator, &tokens.Operator}, {viewer, &tokens.Viewer}} {
		if file.path == "" {
			continue
		}
		token, created, err := web.LoadToken(file.path)
		if err != nil {
			return web.Tokens{}, err
		}
		if created {
			fmt.Fprintf(stderr, "superd: made a token in %s\n", terminal.Sanitize(file.path))
		}
		*file.into = token
	}
	if tokens.Operator == tokens.Viewer {
		return web.Tokens{}, usageError{fmt.Errorf("read tokens: %s and %s hold the same one: remove one of them", operator, viewer)}
	}
	return tokens, nil
}

// superds returns how to connect to each superd that the pages show.
func (f *webFlags) superds() (all []web.Host, err error) {
	names := f.hosts
	if len(names) == 0 {
		names = []string{localHost}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		if name == localHost {
			socket, err := locate.Socket(f.config, f.runtimeDir)
			if err != nil {
				return nil, err
			}
			client := control.NewClient(socket)
			all = append(all, web.Host{Name: name, Dial: client.Connect})
			continue
		}
		if err := remote.CheckName(name); err != nil {
			return nil, fmt.Errorf("read --host: %w", err)
		}
		h := &remote.Host{Name: name, SSH: os.Getenv("SUPERD_SSH"), Args: remoteArgs(f.config, f.runtimeDir), Timeout: hostTimeout}
		all = append(all, web.Host{Name: name, Dial: h.Dial})
	}
	return all, nil
}

// usualTokenFile returns the path of the token file if none is named: in the state directory that
// superd or systemd has made, else in that of the user.
func usualTokenFile() string {
	const name = "web-token"
	if dirs := filepath.SplitList(os.Getenv("STATE_DIRECTORY")); len(dirs) > 0 && filepath.IsAbs(dirs[0]) {
		return filepath.Join(dirs[0], name)
	}
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/superd", name)
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(os.Getenv("HOME"), ".local/state")
	}
	return filepath.Join(state, "superd", name)
}
