package control

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// PeerPid returns the pid, in this process's pid namespace, of the process that listens on the
// socket; 0 if that is not visible, or on another host (SO_PEERCRED, unix(7)).
func (c *Client) PeerPid(ctx context.Context) (int, error) {
	x, err := c.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer x.Close()
	conn, local := x.conn.(*net.UnixConn)
	if !local {
		return 0, nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("read peer credentials: %w", err)
	}
	return int(cred.Pid), nil
}
