package server

import (
	"context"
	"encoding/json"
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

	"superd/control"
)

// Listen listens on the Unix socket at path, for everybody: who may say what is settled per connection. The caller holds the directory.
//
// A socket and a FIFO are replaced; anything else that lies there is not touched. The socket may look alive: whoever was killed holds his
// files until the kernel has ended all his threads.
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

// Inherit returns the listener of an earlier superd at path, on which clients may be waiting, from its descriptor, which it owns. It fails if
// that is not the socket which is at path.
func Inherit(fd int, path string) (*net.UnixListener, error) {
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	l, err := net.FileListener(file) // with a descriptor of its own
	if err != nil {
		return nil, fmt.Errorf("inherit control socket: %w", err)
	}
	info, err := os.Lstat(path)
	unix, ok := l.(*net.UnixListener)
	if err != nil || !ok || unix.Addr().String() != path || info.Mode()&fs.ModeSocket == 0 {
		l.Close()
		return nil, fmt.Errorf("inherit control socket: it is not at %s any more", path)
	}
	if err := controlFD(unix, func(fd int) error { return syscall.Listen(fd, backlog) }); err != nil { // peers are told who listens
		l.Close()
		return nil, fmt.Errorf("inherit control socket: %w", err)
	}
	unix.SetUnlinkOnClose(true)
	return unix, nil
}

// backlog is how many clients may wait. The kernel has its own bound, too.
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
		return errors.New("something that is not a socket lies there: remove it")
	}
	return os.Remove(path)
}

// A listener lets those in who may connect, as many as there is room for. The others are told why not and
// sent away at once, so that they take nothing from those who may.
type listener struct {
	net.Listener
	uid   int
	log   *slog.Logger
	count atomic.Int32

	mu     sync.Mutex
	spares []*os.File // descriptors to give up when there is no other for a connection
	closed bool
}

func newListener(l net.Listener, uid int, log *slog.Logger) *listener {
	own := &listener{Listener: l, uid: uid, log: log}
	own.keepSpares()
	return own
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		l.keepSpares()
		conn, err := l.Listener.Accept()
		if outOfDescriptors(err) && l.giveSpare() {
			conn, err = l.Listener.Accept()
		}
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn)
		switch {
		case err != nil:
			l.log.Debug("connection refused", "error", err)
			conn.Close()
		case uid != 0 && uid != l.uid:
			l.log.Debug("connection refused", "uid", uid)
			turnAway(conn, &control.Error{Status: http.StatusForbidden, Message: fmt.Sprintf("user %d may not control this superd", uid),
				Remedy: fmt.Sprintf("become root or user %d", l.uid)})
		case l.count.Load() >= maxConnections:
			l.log.Debug("connection refused", "connections", maxConnections)
			turnAway(conn, &control.Error{Status: http.StatusServiceUnavailable, Message: fmt.Sprintf("%d connections are open, superd takes no more", maxConnections),
				Remedy: "try again when some have been closed"})
		default:
			l.count.Add(1)
			return &connection{Conn: conn, uid: uid, left: sync.OnceFunc(l.leave)}, nil
		}
	}
}

func (l *listener) leave() {
	l.count.Add(-1)
	l.keepSpares()
}

func (l *listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for l.giveSpare() {
	}
	err := l.Listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// maxSpares is how many spare descriptors there are: when a connection is closed, somebody else may be faster to take what becomes free, and give it back
// when nobody looks.
const maxSpares = 4

// keepSpares opens the spare descriptors that are not open, as far as they can be had.
func (l *listener) keepSpares() {
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

func (l *listener) giveSpare() bool {
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

// turnAway answers without reading the request. The answer fits into an empty socket buffer, so this does not
// wait for the other side.
func turnAway(conn net.Conn, e *control.Error) {
	defer conn.Close()
	body, err := json.Marshal(e)
	if err != nil {
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		e.Status, http.StatusText(e.Status), len(body)+1, body)
}

// A connection is one that was let in.
type connection struct {
	net.Conn
	uid  int
	left func()
}

func (c *connection) Close() error {
	err := c.Conn.Close()
	c.left()
	return err
}

type peerKey struct{}

// withPeer notes in a connection's context whose it is.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*connection); ok {
		ctx = context.WithValue(ctx, peerKey{}, own.uid)
	}
	return ctx
}

// peerOf returns the user at the other end of a request's connection.
func peerOf(ctx context.Context) int {
	uid, _ := ctx.Value(peerKey{}).(int)
	return uid
}
