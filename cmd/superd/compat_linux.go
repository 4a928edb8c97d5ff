package main

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

	"golang.org/x/sys/unix"

	"superd/compat/supervisor"
	"superd/control"
	"superd/control/server"
	"superd/internal/safepath"
)

// A compatSocket is the socket that answers as supervisord does. It follows the configuration in
// force. What may block runs on goroutines of its own.
type compatSocket struct {
	wanted atomic.Pointer[string] // path in force; nil or "": none

	mu      sync.Mutex // held while the socket is opened or closed
	serving *compatServing
	path    string // of the open socket; "": none is open
	close   func() error
}

// compatServing is what a socket needs to be served.
type compatServing struct {
	log     *slog.Logger
	control string // path of the control socket
	serve   func(net.Listener, http.Handler) (close func() error)
}

// want makes path the one in force.
func (c *compatSocket) want(path string) {
	c.wanted.Store(&path)
	go c.follow()
}

// begin opens the socket in force, now and after changes.
func (c *compatSocket) begin(s *compatServing) {
	c.mu.Lock()
	c.serving = s
	c.mu.Unlock()
	go c.follow()
}

// end closes the socket for good.
func (c *compatSocket) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeNow()
	c.serving = nil
}

// follow opens or closes the socket as is in force.
func (c *compatSocket) follow() {
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
		c.serving.log.Error("socket for clients of supervisord not opened", "error", err)
		return
	}
	c.path = *path
	c.serving.log.Info("answering clients of supervisord", "socket", *path)
}

// closeNow closes and removes the socket, with its connections, if it is open.
func (c *compatSocket) closeNow() {
	if c.close == nil {
		return
	}
	if err := c.close(); err != nil {
		c.serving.log.Warn("socket for clients of supervisord not closed", "error", err)
	}
	c.path, c.close = "", nil
}

// connectTimeout bounds the attempt to find out whether a socket is in use.
const connectTimeout = time.Second

var errInUse = errors.New("another process answers there: end it, or choose another path")

// open listens at path, in a directory that no other user may write.
func (c *compatSocket) open(path string) error {
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
	c.close = c.serving.serve(listener, &supervisor.Handler{
		Supervisor: supervisor.New(control.NewClient(c.serving.control)),
		Role:       supervisorRole,
		Open:       openLogFile,
		Pid:        os.Getpid(),
	})
	return nil
}

func supervisorRole(r *http.Request) supervisor.Role {
	switch operator, owner := server.Permissions(r); {
	case owner:
		return supervisor.Owner
	case operator:
		return supervisor.Operator
	}
	return supervisor.Viewer
}

// openLogFile opens a log file, whose directory the user of a program may write.
func openLogFile(path string) (*os.File, error) {
	f, err := safepath.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(f.FD), path), nil
}
