package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// transports are the connections to syslog and journald, one for each address, shared by all
// programs.
type transports struct {
	log       *slog.Logger
	now       func() time.Time
	mu        sync.Mutex
	byAddress map[string]*transport
}

// A transport sends messages to one address. It blocks no thread if the receiver stalls.
type transport struct {
	transports *transports
	name       string // address as configured
	endpoint   dialAddress
	busy       chan struct{} // holds a token of the sender
	conn       net.Conn      // nil: not connected
	users      int           // guarded by of.mu
	frame      []byte        // a message framed for a stream
	refusals   refusals      // of datagrams
}

// refusals is the state of errors of earlier datagrams, with UDP. The system returns such an error
// for the next send, once. So that message is sent again at once. What was refused is lost, as it
// also is if there is no error.
type refusals struct {
	logged bool
	since  time.Time // when the first datagram after the last refusal was sent
}

// get returns the transport to an address, for one more user.
func (t *transports) get(address string) *transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.byAddress[address]
	if to == nil {
		to = &transport{transports: t, name: address, endpoint: parseAddress(address), busy: make(chan struct{}, 1)}
		if t.byAddress == nil {
			t.byAddress = map[string]*transport{}
		}
		t.byAddress[address] = to
	}
	to.users++
	return to
}

// release counts one user less; the last one closes the connection.
func (t *transport) release() {
	t.transports.mu.Lock()
	t.users--
	last := t.users == 0
	if last {
		delete(t.transports.byAddress, t.name)
	}
	t.transports.mu.Unlock()
	if last {
		t.disconnect()
	}
}

// send sends a message. While the receiver stalls, it waits, until stop is closed. An error means
// that the receiver can't be reached.
func (t *transport) send(message []byte, stop <-chan struct{}) error {
	select {
	case t.busy <- struct{}{}:
	case <-stop:
		return errClosed
	}
	defer func() { <-t.busy }()
	if t.conn == nil {
		if err := t.dial(stop); err != nil {
			return err
		}
	}
	switch t.conn.RemoteAddr().Network() {
	case "tcp": // RFC 6587: octet counting
		t.frame = append(strconv.AppendInt(t.frame[:0], int64(len(message)), 10), ' ')
		t.frame = append(t.frame, message...)
		message = t.frame
	case "unix": // as syslog(3) of glibc does
		t.frame = append(append(t.frame[:0], message...), 0)
		for i, b := range message {
			if b == 0 {
				t.frame[i] = '?'
			}
		}
		message = t.frame
	}
	stalled := time.Time{}
	var refused []error // errors of earlier datagrams
	for {
		if err := t.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			t.disconnect()
			return err
		}
		n, err := t.conn.Write(message)
		message = message[n:]
		switch {
		case err == nil:
			t.refusals.sent(t, refused)
			if !stalled.IsZero() {
				t.transports.log.Info("messages accepted again", "address", t.name, "after", time.Since(stalled))
			}
			return nil
		case t.endpoint.network == "udp" && len(refused) < maxRefusals && !errors.Is(err, os.ErrDeadlineExceeded):
			refused = append(refused, err)
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			t.disconnect()
			return err
		}
		if stalled.IsZero() {
			stalled = time.Now()
			t.transports.log.Warn("messages not accepted: the receiver stalls", "address", t.name)
		}
		select {
		case <-stop:
			t.disconnect() // part of the message may have been sent
			return errClosed
		default:
		}
	}
}

// maxRefusals is how many errors of earlier datagrams a message may get. An error of its own is
// returned each time.
const maxRefusals = 10

// RefusalsEndAfter is how long no datagram may be refused before they count as received again. A
// host that refuses them reports it once a second at least.
const RefusalsEndAfter = 10 * time.Second

// sent records that a message was sent, after errors of earlier datagrams.
func (r *refusals) sent(t *transport, refused []error) {
	switch {
	case len(refused) > 0:
		if !r.logged {
			t.transports.log.Warn("messages lost: no receiver", "address", t.name, "error", refused[0])
		}
		*r = refusals{logged: true}
	case !r.logged:
	case r.since.IsZero():
		r.since = t.transports.now()
	case t.transports.now().Sub(r.since) >= RefusalsEndAfter:
		*r = refusals{}
		t.transports.log.Info("messages apparently no longer lost", "address", t.name)
	}
}

func (t *transport) dial(stop <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ended:
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, t.endpoint.network, t.endpoint.address)
	if errors.Is(err, syscall.EPROTOTYPE) { // a stream socket, as syslog-ng may make it
		conn, err = new(net.Dialer).DialContext(ctx, "unix", t.endpoint.address)
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	t.conn = conn
	return nil
}

// disconnect closes the connection; the next message makes another one.
func (t *transport) disconnect() {
	if t.conn != nil {
		t.conn.Close()
		t.conn = nil
	}
}

// A dialAddress is an address in the form of package net.
type dialAddress struct{ network, address string }

// parseAddress returns how a sink is reached. An address is the path of a datagram socket,
// udp://HOST:PORT or tcp://HOST:PORT.
func parseAddress(address string) dialAddress {
	if network, rest, ok := strings.Cut(address, "://"); ok {
		return dialAddress{network, rest}
	}
	return dialAddress{"unixgram", address}
}
