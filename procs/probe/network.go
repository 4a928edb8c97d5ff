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
	maxBody   = 64 << 10 // bytes read of an answer
	maxHeader = 64 << 10
)

// A networkChecker runs each check in a goroutine, which ends when the check is stopped.
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

// dialer returns a dialer with Go's own resolver, which can be stopped, and without keep-alive.
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

// HTTP returns a checker that passes when a GET returns a status of 200 to 399. It does not follow
// redirects. Each check uses a new connection without a proxy. http://unix:/run/web.sock:/healthz
// connects to a Unix socket.
//
// Certificates are verified unless the host is a loopback address or localhost, whose listener is
// on this machine.
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
	// Read the body, so that the server of a short answer isn't cut off.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return badStatus(response, body)
	}
	if err != nil {
		return fmt.Errorf("read answer: %w", explain(err))
	}
	return nil
}

// badStatus returns an error with the status and the first line of the body.
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

// A connectError reports a failed connection to an address.
type connectError struct {
	address string
	cause   error
}

func (e *connectError) Error() string { return "connect to " + e.address + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *connectError) Unwrap() error { return e.cause }

// explain shortens errors of the network packages.
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
		if op.Op == "dial" {
			short = &connectError{op.Addr.String(), cause}
		} else {
			short = fmt.Errorf("%s %s: %w", op.Op, op.Addr, cause)
		}
	}
	for _, shortage := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, shortage) {
			return Uncounted{short}
		}
	}
	return short
}
