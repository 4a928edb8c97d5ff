package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

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
	r := request{post: true, path: "/v1/programs/" + url.PathEscape(name) + "/execute", form: url.Values{
		"command": command.Words, "terminal": {strconv.FormatBool(command.Terminal)}, "term": {command.TERM},
	}}
	answer, err := c.change(ctx, x, r, ExecuteProtocol)
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
