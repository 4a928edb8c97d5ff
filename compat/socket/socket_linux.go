// Package socket serves the socket that answers as supervisord does.
package socket

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"superd/compat/supervisor"
	"superd/control"
	"superd/control/server"
	"superd/internal/safepath"
)

// A Socket is the socket that answers as supervisord does. It follows the configuration in
// force. What may block runs on goroutines of its own.
type Socket struct {
	wanted atomic.Pointer[string] // path in force; nil or "": none

	mu      sync.Mutex // held while the socket is opened or closed
	serving *Serving
	path    string // of the open socket; "": none is open
	close   func() error
}

// Serving is what a socket needs to be served.
type Serving struct {
	Log     *slog.Logger
	Control string // path of the control socket
	Serve   func(net.Listener, http.Handler) (close func() error)
}

// Want makes path the one in force.
func (c *Socket) Want(path string) {
	c.wanted.Store(&path)
	go c.follow()
}

// Begin opens the socket in force, now and after changes.
func (c *Socket) Begin(s *Serving) {
	c.mu.Lock()
	c.serving = s
	c.mu.Unlock()
	go c.follow()
}

// End closes the socket for good.
func (c *Socket) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeNow()
	c.serving = nil
}

// follow opens or closes the socket as is in force.
func (c *Socket) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	path := c.wanted.Load()
	if c.serving == nil || path == nil || *path == c.path {
		return
	}
	c.closeNow()
	if *path == "" {
		return
	}
	if err := c.open(*path); err != nil {
		c.serving.Log.Error("socket for clients of supervisord not opened", "error", err)
		return
	}
	c.path = *path
	c.serving.Log.Info("answering clients of supervisord", "socket", *path)
}

// closeNow closes and removes the socket, with its connections, if it is open.
func (c *Socket) closeNow() {
	if c.close == nil {
		return
	}
	if err := c.close(); err != nil {
		c.serving.Log.Warn("socket for clients of supervisord not closed", "error", err)
	}
	c.path, c.close = "", nil
}

// connectTimeout bounds the attempt to find out whether a socket is in use.
const connectTimeout = time.Second

var errInUse = errors.New("another process answers there: end it, or choose another path")

// open listens at path, in a directory that no other user may write.
func (c *Socket) open(path string) error {
	dir, name, err := safepath.Locate(path)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", path, err)
	}
	defer dir.Close()
	if exposed := dir.Exposed(); exposed != "" {
		return fmt.Errorf("listen on %s: %s: choose a directory that belongs to root or the user of superd",
			path, exposed)
	}
	own := filepath.Join(dir.Path(), name)
	if conn, err := net.DialTimeout("unix", own, connectTimeout); err == nil {
		conn.Close()
		return fmt.Errorf("listen on %s: %w", path, errInUse)
	}
	listener, err := server.Listen(own)
	if err != nil {
		return err
	}
	c.close = c.serving.Serve(listener, supervisor.NewHandler(
		supervisor.New(control.NewClient(c.serving.Control)), role, supervisor.OpenLog, os.Getpid()))
	return nil
}

func role(r *http.Request) supervisor.Role {
	switch operator, owner := server.Permissions(r); {
	case owner:
		return supervisor.Owner
	case operator:
		return supervisor.Operator
	}
	return supervisor.Viewer
}
