package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"

	"superd/loop"
)

const (
	maxBody   = 64 << 10 // what is read of an answer
	maxHeader = 64 << 10
)

// A networkChecker checks in a goroutine for each check, which ends when the check is stopped.
type networkChecker struct {
	loop  *loop.Loop
	check func(context.Context) error
}

// Check implements [Checker].
func (c *networkChecker) Check(done func(error)) (stop func() (begun bool)) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		err := c.check(ctx)
		cancel()
		c.loop.Post(func() { done(err) })
	}()
	return func() bool {
		cancel()
		return true
	}
}

// dialer has a name resolved by Go's own resolver, which can be stopped, and connections without keep-alive.
func dialer() *net.Dialer {
	return &net.Dialer{KeepAlive: -1, Resolver: &net.Resolver{PreferGo: true}}
}

// TCP returns a checker that passes when a connection to host:port is accepted.
func TCP(l *loop.Loop, address string) Checker {
	d := dialer()
	return &networkChecker{l, func(ctx context.Context) error {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return explain(err)
		}
		return conn.Close()
	}}
}

// HTTP returns a checker that passes when a GET is answered with a status of 200 to 399. Redirects are not followed. Each check has a
// connection of its own, without a proxy. http://unix:/run/web.sock:/healthz asks at a Unix socket.
//
// A certificate is verified unless the host is a loopback address or localhost: who listens there is on this machine.
func HTTP(l *loop.Loop, address string) (Checker, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("check by HTTP: %w", err)
	}
	d := dialer()
	dial := d.DialContext
	if target.Host == "unix:" {
		socket, path, _ := strings.Cut(target.Path, ":")
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }
		target.Host, target.Path, target.RawPath = "localhost", path, ""
	}
	transport := &http.Transport{
		DialContext:            dial,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: isLoopback(target.Hostname())},
	}
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &networkChecker{l, func(ctx context.Context) error { return get(ctx, client, target.String()) }}, nil
}

func get(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "superd")
	response, err := client.Do(request)
	if err != nil {
		return explain(err)
	}
	defer response.Body.Close()
	// Read, so that the server isn't cut off in what is a short answer.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return badStatus(response, body)
	}
	if err != nil {
		return fmt.Errorf("read answer: %w", explain(err))
	}
	return nil
}

// badStatus shows the status and the first line of the body.
func badStatus(response *http.Response, body []byte) error {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body[:min(len(body), maxReason)])), "\n")
	if line == "" || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
		return fmt.Errorf("HTTP %s", response.Status)
	}
	return fmt.Errorf("HTTP %s: %s", response.Status, line)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// explain shortens what the network packages say.
func explain(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	short := err
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		short = fmt.Errorf("look up %s: %s", dns.Name, dns.Err)
	} else if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		cause := op.Err
		if call, ok := errors.AsType[*os.SyscallError](cause); ok {
			cause = call.Err
		}
		verb := op.Op
		if verb == "dial" {
			verb = "connect to"
		}
		short = fmt.Errorf("%s %s: %w", verb, op.Addr, cause)
	}
	for _, shortage := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, shortage) {
			return Uncounted{short}
		}
	}
	return short
}
