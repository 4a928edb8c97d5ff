package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func (c *Client) execute(ctx context.Context, name string, command Command) (Exit, error) {
	x, err := c.dial(ctx)
	if err != nil {
		return Exit{}, err
	}
	defer x.Close()
	conn, ok := x.conn.(*net.UnixConn)
	if !ok {
		return Exit{}, errors.New("execute command: descriptors can be passed on this host only")
	}
	answer, err := c.change(ctx, x, name, command)
	if err != nil {
		return Exit{}, err
	}
	var fds []int
	for _, f := range command.Files {
		raw, err := f.SyscallConn() // Fd would make it blocking
		if err != nil {
			return Exit{}, fmt.Errorf("pass descriptors: %w", err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return Exit{}, fmt.Errorf("pass descriptors: %w", err)
		}
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil); err != nil {
		return Exit{}, fmt.Errorf("pass descriptors: %w", err)
	}
	if command.Passed != nil {
		if err := command.Passed(); err != nil {
			return Exit{}, err
		}
	}
	for lines := json.NewDecoder(answer); ; {
		var e Execution
		switch err := lines.Decode(&e); {
		case ctx.Err() != nil:
			return Exit{}, ctx.Err()
		case err != nil:
			return Exit{}, fmt.Errorf("read answer of superd: %w: the command has no client any more", err)
		case e.Error != nil:
			return Exit{}, e.Error
		case e.Exit != nil:
			return *e.Exit, nil
		}
	}
}

// change makes the request and returns what follows the change of the protocol.
func (c *Client) change(ctx context.Context, x *exchange, name string, command Command) (io.Reader, error) {
	x.limit(time.Now().Add(c.timeout))
	r := request{post: true, path: "/v1/programs/" + url.PathEscape(name) + "/execute", form: url.Values{
		"command": command.Words, "terminal": {strconv.FormatBool(command.Terminal)}, "term": {command.TERM},
	}}
	req, err := r.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Close = false
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", ExecuteProtocol)
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
