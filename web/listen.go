package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Listen listens on a TCP address such as 127.0.0.1:9001; without a host it is the loopback
// interface. Beyond that it refuses to, unless secure says that the answers are encrypted. At most
// [maxConnections] are accepted at a time; others wait.
func Listen(ctx context.Context, address string, secure bool) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read listen: %w: write HOST:PORT, such as 127.0.0.1:9001", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	resolved, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("read listen: %w", err)
	}
	if !resolved.IP.IsLoopback() && !secure {
		return nil, fmt.Errorf("listen on %s: others could read the token on the way: name a certificate with tls_cert and tls_key "+
			"in [web] or --tls-cert and --tls-key, or listen on 127.0.0.1 and use `ssh -L` or a reverse proxy with TLS", resolved)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", resolved.String())
	if err != nil {
		return nil, fmt.Errorf("%w: name another address in [web] or with --listen", err)
	}
	return &limited{Listener: listener, places: make(chan struct{}, maxConnections), closed: make(chan struct{})}, nil
}

// A limited listener has at most as many connections at a time as it has places.
type limited struct {
	net.Listener
	places chan struct{} // has a value for each connection
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close implements [net.Listener].
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A placed connection gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// A Certificate is a pair of files. It is read again when they have changed.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	version [2]time.Time // of the files that pair is from
	checked time.Time
}

const certificateAge = 5 * time.Second // until the files are looked at again

// LoadCertificate reads a certificate and its key.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config returns the TLS configuration of a server with the certificate.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil }}
}

// get returns the certificate in force. One that cannot be read leaves the one before.
func (c *Certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certificateAge {
		return c.pair
	}
	if err := c.load(); err != nil {
		c.log.Warn("the certificate is not read again", "error", err)
	}
	return c.pair
}

// load reads the files if they have changed.
func (c *Certificate) load() error {
	c.checked = time.Now()
	var version [2]time.Time
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("read certificate: %s is not a regular file", path)
		}
		version[i] = info.ModTime()
	}
	if version == c.version {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	c.pair, c.version = &pair, version
	return nil
}
