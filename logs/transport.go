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
	"syscall"
	"time"
)

// Transports are the connections to syslog and journald, one to each address for all programs that log there.
type transports struct {
	log *slog.Logger
	now func() time.Time
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
	lossy refusals      // of datagrams
}

// Refusals are errors that earlier datagrams have met, by UDP: an error is told to whoever sends next, and then is no more. So the message is sent once
// more at once, and what was refused is lost, as it is where nobody tells.
type refusals struct {
	told  bool
	since time.Time // when the first datagram after the last one of them was sent
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
	var refused []error // what earlier datagrams have met
	for {
		if err := t.conn.SetWriteDeadline(time.Now().Add(patienceOfSend)); err != nil {
			t.hangUp()
			return err
		}
		n, err := t.conn.Write(message)
		message = message[n:]
		switch {
		case err == nil:
			t.lossy.sent(t, refused)
			if !stalled.IsZero() {
				t.of.log.Info("messages are taken again", "address", t.name, "after", time.Since(stalled))
			}
			return nil
		case t.where.network == "udp" && len(refused) < refusedAgain && !errors.Is(err, os.ErrDeadlineExceeded):
			refused = append(refused, err)
			continue
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

// refusedAgain is how many errors of earlier datagrams a message may meet. One that is its own comes again each time.
const refusedAgain = 10

// calmAfter is how long no datagram has to be refused until they count as taken again. Who refuses them says so once a second at least.
const calmAfter = 10 * time.Second

// sent notes that a message is sent, before which earlier ones turned out to be refused.
func (r *refusals) sent(t *transport, refused []error) {
	switch {
	case len(refused) > 0:
		if !r.told {
			t.of.log.Warn("messages are lost, nobody takes them there", "address", t.name, "error", refused[0])
		}
		*r = refusals{told: true}
	case !r.told:
	case r.since.IsZero():
		r.since = t.of.now()
	case t.of.now().Sub(r.since) >= calmAfter:
		*r = refusals{}
		t.of.log.Info("messages are not lost any more, as far as is known", "address", t.name)
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
	if errors.Is(err, syscall.EPROTOTYPE) { // a stream listens there, as syslog-ng may make it
		conn, err = new(net.Dialer).DialContext(ctx, "unix", t.where.address)
	}
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
