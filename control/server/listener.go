package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"superd/config"
	"superd/control"
	"superd/internal/escape"
	"superd/internal/passwd"
)

// Listen listens on the Unix socket at path. All users may connect; permission is checked for each
// connection. The caller owns the directory.
//
// It replaces a socket or a FIFO at path, and no other file. A socket may still seem to be in use,
// since the kernel closes the files of a killed process only when all its threads have ended.
func Listen(path string) (*net.UnixListener, error) {
	if len(path) > control.MaxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, a socket can have %d: choose a shorter runtime directory",
			path, len(path), control.MaxSocketPath)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open control socket to all: %w", err), l.Close())
	}
	return l, nil
}

// Inherit returns the listener of a predecessor at path, on which clients may be waiting, from its
// descriptor fd, which it takes over. It fails if that is not the socket at path.
func Inherit(fd int, path string) (*net.UnixListener, error) {
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	l, err := net.FileListener(file) // duplicates the descriptor
	if err != nil {
		return nil, fmt.Errorf("inherit control socket: %w", err)
	}
	info, err := os.Lstat(path)
	unix, ok := l.(*net.UnixListener)
	if err != nil || !ok || unix.Addr().String() != path || info.Mode()&fs.ModeSocket == 0 {
		l.Close()
		return nil, fmt.Errorf("inherit control socket: it is not at %s any more", path)
	}
	// Sets the pid that peers see as the listener's.
	if err := controlFD(unix, func(fd int) error { return syscall.Listen(fd, backlog) }); err != nil {
		l.Close()
		return nil, fmt.Errorf("inherit control socket: %w", err)
	}
	unix.SetUnlinkOnClose(true)
	return unix, nil
}

// backlog is how many clients may wait. The kernel applies a limit of its own, too.
const backlog = 4096

func controlFD(l *net.UnixListener, f func(fd int) error) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(failed, err)
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&(fs.ModeSocket|fs.ModeNamedPipe) == 0:
		return errors.New("it exists and is not a socket: remove it")
	}
	return os.Remove(path)
}

// A listener accepts permitted clients up to a maximum number. It answers others with an error and
// closes them at once, so that they take no resources from permitted clients.
type listener struct {
	net.Listener
	uid    int
	access func() config.Control
	log    *slog.Logger
	count  atomic.Int32

	mu     sync.Mutex
	spares []*os.File // spare descriptors, closed when no other is free for a connection
	closed bool
}

func newListener(l net.Listener, uid int, access func() config.Control, log *slog.Logger) *listener {
	own := &listener{Listener: l, uid: uid, access: access, log: log}
	own.refillSpares()
	return own
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		l.refillSpares()
		conn, err := l.Listener.Accept()
		if outOfDescriptors(err) && l.freeSpare() {
			conn, err = l.Listener.Accept()
		}
		if err != nil {
			return nil, err
		}
		p, err := peerOfConn(conn)
		may, limit := roleNone, int32(maxConnections)
		if err == nil {
			may = roleOf(p, l.uid, l.access(), passwd.System())
		}
		if may < roleOwner { // they can't keep the owner out
			limit = maxConnections / 2
		}
		switch {
		case err != nil:
			l.log.Debug("connection refused", "error", err)
			conn.Close()
		case may == roleNone:
			l.log.Debug("connection refused", "uid", p.uid)
			reject(conn, errForbidden(p.uid, roleViewer, l.uid))
		case l.count.Load() >= limit:
			l.log.Debug("connection refused", "connections", limit)
			reject(conn, &control.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("%d connections are open, which is the limit", limit),
				Remedy: "try again when some have been closed"})
		default:
			l.count.Add(1)
			return &connection{Conn: conn, uid: p.uid, role: may, release: sync.OnceFunc(l.release)}, nil
		}
	}
}

func (l *listener) release() {
	l.count.Add(-1)
	l.refillSpares()
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for l.freeSpare() {
	}
	err := l.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// maxSpares is the number of spare descriptors. It is more than one since another user of
// descriptors may take the one just freed.
const maxSpares = 4

// refillSpares reopens missing spare descriptors as far as possible.
func (l *listener) refillSpares() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.spares) < maxSpares && !l.closed {
		spare, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		l.spares = append(l.spares, spare)
	}
}

func (l *listener) freeSpare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.spares) - 1
	if last < 0 {
		return false
	}
	l.spares[last].Close()
	l.spares = l.spares[:last]
	return true
}

func outOfDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// reject answers without reading the request. The answer fits into an empty socket buffer, so this
// does not wait for the client.
func reject(conn net.Conn, e *control.Error) {
	defer conn.Close()
	body, err := escape.Marshal(e)
	if err != nil {
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		e.Status, http.StatusText(e.Status), len(body)+1, body)
}

// A connection is an accepted connection.
type connection struct {
	net.Conn
	uid     int
	role    role
	release func()
}

func (c *connection) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

type peerKey struct{}

// withPeer stores a connection in its context.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*connection); ok {
		ctx = context.WithValue(ctx, peerKey{}, own)
	}
	return ctx
}

// peerOf returns the user at the other end of a request's connection.
func peerOf(ctx context.Context) int {
	if c, ok := ctx.Value(peerKey{}).(*connection); ok {
		return c.uid
	}
	return 0
}

// mayUse returns an error if the user at the other end of a request's connection may not use the
// route.
func (s *Server) mayUse(ctx context.Context, to *route) error {
	c, ok := ctx.Value(peerKey{}).(*connection)
	switch needed := to.needs(); {
	case !ok:
		return errNotUnix
	case c.role < needed:
		return errForbidden(c.uid, needed, s.options.UID)
	}
	return nil
}
