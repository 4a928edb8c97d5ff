package pty

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// maxBehind is how many reads a client may be behind the program before it is cut.
const maxBehind = 1024

// A Client is attached to a terminal: it sees what the program writes, and types. Several may be.
type Client struct {
	// Output has what the program writes. It is closed when the client is cut; Why says why.
	Output <-chan []byte
	// Others gets how many clients are attached, whenever that has changed.
	Others <-chan int

	output chan []byte
	others chan int
	of     *Terminal
	master int // a duplicate of its own
	gone   chan struct{}
	why    string
}

// ErrClosed is the error of a terminal that its program does not have any more.
var ErrClosed = errors.New("the program has no terminal any more")

// Join attaches a client.
func (t *Terminal) Join() (*Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	master, err := unix.FcntlInt(uintptr(t.master), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("attach to terminal: %w", err)
	}
	c := &Client{of: t, master: master, output: make(chan []byte, maxBehind),
		others: make(chan int, 1), gone: make(chan struct{})}
	c.Output, c.Others = c.output, c.others
	t.clients[c] = struct{}{}
	t.tell()
	return c, nil
}

// tell tells all clients how many there are.
func (t *Terminal) tell() {
	for c := range t.clients {
		select {
		case <-c.others: // out of date
		default:
		}
		c.others <- len(t.clients)
	}
}

// show gives the clients what the program has written.
func (t *Terminal) show(text []byte) {
	if len(t.clients) == 0 {
		return
	}
	text = slices.Clone(text)
	for c := range t.clients {
		select {
		case c.output <- text:
		default:
			t.cut(c, "the client did not read in time")
		}
	}
}

// cut detaches a client.
func (t *Terminal) cut(c *Client, why string) {
	if _, attached := t.clients[c]; !attached {
		return
	}
	delete(t.clients, c)
	c.why = why
	close(c.output)
	close(c.gone)
	t.tell()
}

// Why returns why the client was cut.
func (c *Client) Why() string {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.why
}

// Detach detaches the client. [Client.Type] returns.
func (c *Client) Detach() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.cut(c, "")
}

// Release releases the client's descriptor, when it is detached and neither Type nor Resize runs.
func (c *Client) Release() { syscalls.Close(c.master) }

// retryPause is how long Type waits, in milliseconds, before it looks whether the client is gone.
const retryPause = 100

// Type types text. It blocks while the program does not read what was typed, until the client is
// detached.
func (c *Client) Type(text []byte) error {
	for len(text) > 0 {
		select {
		case <-c.gone:
			return ErrClosed
		default:
		}
		n, err := syscalls.Write(c.master, text)
		switch {
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(c.master), Events: unix.POLLOUT}}, retryPause)
		case err != nil:
			return fmt.Errorf("type: %w", err)
		default:
			text = text[n:]
		}
	}
	return nil
}

// Resize sets the size of the terminal, of which the program gets SIGWINCH.
func (c *Client) Resize(columns, rows uint16) error {
	size := &unix.Winsize{Col: columns, Row: rows}
	if err := unix.IoctlSetWinsize(c.master, unix.TIOCSWINSZ, size); err != nil {
		return fmt.Errorf("set size of terminal: %w", err)
	}
	return nil
}
