package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// Transports are the connections to syslog and journald, one to each address for all programs that log there.
type transports struct {
	log *slog.Logger
	mu  sync.Mutex
	by  map[string]*transport
}

// A transport sends messages to one address. No thread waits where the other side stalls.
type transport struct {
	of    *transports
	name  string // the address as it is written
	where dialAddress
	busy  chan struct{} // held by who sends
	conn  net.Conn      // nil: to be made
	users int           // guarded by of.mu
	frame []byte        // of a message on its way in a stream
}

// patienceOfSend is how long a message may take before it is tried again, by which time it is told that the other side stalls.
const patienceOfSend = time.Second

var errQuit = errors.New("the output is not wanted any more")

// get returns the transport to an address, for one more user.
func (t *transports) get(address string) *transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.by[address]
	if to == nil {
		to = &transport{of: t, name: address, where: parseAddress(address), busy: make(chan struct{}, 1)}
		if t.by == nil {
			t.by = map[string]*transport{}
		}
		t.by[address] = to
	}
	to.users++
	return to
}

// leave is called by a user that needs it no more.
func (t *transport) leave() {
	t.of.mu.Lock()
	t.users--
	last := t.users == 0
	if last {
		delete(t.of.by, t.name)
	}
	t.of.mu.Unlock()
	if last {
		t.hangUp()
	}
}

// send sends a message. It waits for as long as the other side takes nothing, until quit is closed; an error tells that it can't be reached.
func (t *transport) send(message []byte, quit <-chan struct{}) error {
	select {
	case t.busy <- struct{}{}:
	case <-quit:
		return errQuit
	}
	defer func() { <-t.busy }()
	if t.conn == nil {
		if err := t.dial(quit); err != nil {
			return err
		}
	}
	if t.where.network == "tcp" { // RFC 6587: octet counting
		t.frame = append(strconv.AppendInt(t.frame[:0], int64(len(message)), 10), ' ')
		t.frame = append(t.frame, message...)
		message = t.frame
	}
	stalled := time.Time{}
	for {
		if err := t.conn.SetWriteDeadline(time.Now().Add(patienceOfSend)); err != nil {
			t.hangUp()
			return err
		}
		n, err := t.conn.Write(message)
		message = message[n:]
		switch {
		case err == nil:
			if !stalled.IsZero() {
				t.of.log.Info("messages are taken again", "address", t.name, "after", time.Since(stalled))
			}
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			t.hangUp()
			return err
		}
		if stalled.IsZero() {
			stalled = time.Now()
			t.of.log.Warn("messages are not taken: who listens there stalls", "address", t.name)
		}
		select {
		case <-quit:
			t.hangUp() // part of the message may be there
			return errQuit
		default:
		}
	}
}

func (t *transport) dial(quit <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-quit:
			cancel()
		case <-ended:
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, t.where.network, t.where.address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	t.conn = conn
	return nil
}

// hangUp lets go of the connection; the next message makes another one.
func (t *transport) hangUp() {
	if t.conn != nil {
		t.conn.Close()
		t.conn = nil
	}
}
