package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// AttachProtocol is the protocol to which the connection of a client that is attached to a terminal
// changes (HTTP Upgrade): docs/api.md.
const AttachProtocol = "superd-attach"

// An Attached is one line of superd about a terminal to which a client is attached. One of the
// fields is set, in the first line Clients and Name.
type Attached struct {
	Name    string `json:"name,omitempty"`   // the instance
	Clients int    `json:"clients,omitzero"` // how many are attached now, with this one
	Output  []byte `json:"output,omitempty"` // what the program has written
	Error   *Error `json:"error,omitempty"`  // why superd detaches the client; the last line
}

// A Typed is one line of a client that is attached to a terminal: what is typed, or a new size.
type Typed struct {
	Input   []byte `json:"input,omitempty"`
	Columns uint16 `json:"columns,omitzero"`
	Rows    uint16 `json:"rows,omitzero"` // with Columns
}

// An Attachment is a client's connection to the terminal of a program.
type Attachment struct {
	x     *exchange
	lines *json.Decoder

	sending sync.Mutex
}

// Attach attaches to the terminal of one instance, until ctx is done. The caller closes the result.
func (c *Client) Attach(ctx context.Context, name string) (*Attachment, error) {
	x, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	r := request{post: true, path: "/v1/programs/" + url.PathEscape(name) + "/attach"}
	answer, err := c.change(ctx, x, r, AttachProtocol)
	if err != nil {
		x.Close()
		return nil, err
	}
	return &Attachment{x: x, lines: json.NewDecoder(answer)}, nil
}

// ErrLost is wrapped by the error of an attachment whose superd has ended: killed, or upgraded.
var ErrLost = errors.New("the connection to superd is lost")

// Receive returns the next line. It waits for one.
func (a *Attachment) Receive() (Attached, error) {
	var line Attached
	err := a.lines.Decode(&line)
	switch {
	case a.x.ctx.Err() != nil:
		return Attached{}, a.x.ctx.Err()
	case err != nil:
		return Attached{}, fmt.Errorf("%w: %w", ErrLost, err)
	case line.Error != nil:
		return Attached{}, line.Error
	}
	return line, nil
}

// Send sends what is typed, or a new size. It waits while the program does not read.
func (a *Attachment) Send(t Typed) error {
	line, err := json.Marshal(t)
	if err != nil {
		return err
	}
	a.sending.Lock()
	defer a.sending.Unlock()
	_, err = a.x.conn.Write(append(line, '\n'))
	return err
}

// Close detaches the client.
func (a *Attachment) Close() { a.x.Close() }

// change makes a request that changes the protocol, and returns what follows the change.
func (c *Client) change(ctx context.Context, x *exchange, r request, protocol string) (io.Reader, error) {
	x.limit(time.Now().Add(c.timeout))
	req, err := r.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Close = false
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	writeErr := req.Write(x.conn)
	answer := bufio.NewReader(x.conn)
	head, err := http.ReadResponse(answer, req)
	if err != nil {
		return nil, fmt.Errorf("send request to superd on %s: %w", c.path, errors.Join(writeErr, err))
	}
	if head.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(head.Body, 1<<20))
		return nil, decodeError(head.StatusCode, body)
	}
	x.limit(time.Time{})
	return answer, nil
}
