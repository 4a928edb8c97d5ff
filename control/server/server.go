// Package server answers on superd's control socket: HTTP/1.1 and JSON, as docs/api.md describes.
//
// Each connection has a goroutine of its own, none of them on the loop. The supervisor is touched only by
// what is posted to the loop; the answer comes back over a channel, so that a client that is slow, stalled
// or gone holds up nothing but its own goroutine and one buffer. Who may connect is decided by the kernel's
// word on the peer before a byte of the request is read.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs"
	"superd/procs/eventlog"
)

// Limits on what a client may take up.
const (
	maxConnections  = 256
	maxHeaderBytes  = 16 << 10
	maxBodyBytes    = 64 << 10
	maxCursorBytes  = 1 << 20 // a body with the cursors of all instances
	maxRefusedBytes = 4 << 20 // of a body that is too large are read before the answer
	maxGlobs        = 32      // different ones in a request: each is compared with each instance, on the loop
	headerTimeout   = 5 * time.Second
	bodyTimeout     = 5 * time.Second
	idleTimeout     = time.Minute
	stallTimeout    = 30 * time.Second       // for a client that does not read its answer
	farewellTime    = 500 * time.Millisecond // for those who follow something to its end
	watchInterval   = 100 * time.Millisecond // between two answers to a watcher
	statusPart      = 64                     // instances of which the status is sent at a time
	maxLooks        = 2                      // at processes in /proc, at a time
	maxArguments    = 2                      // readers of their arguments, which lie in memory that may take as long as a disk does
	linePatience    = 30 * time.Millisecond  // for the newest lines and for arguments, where a file system stalls
)

// Threads is how many threads a server may keep waiting in the kernel. Connections don't wait there, and whoever reads logs and events
// counts among the threads of those.
const Threads = maxLooks + maxArguments

// A Supervisor is what the server asks. All of it runs on the loop.
type Supervisor interface {
	Status(names []string) ([]procs.Status, error)
	Brief(names []string) ([]procs.Brief, error)
	Resolve(names []string) (instances []string, unknown []*procs.UnknownNameError)
	Command(op procs.Op, names []string, wait bool, done func([]procs.Outcome)) (cancel func(), err error)
	RestartRolling(names []string, done func([]procs.Outcome)) (cancel func(), err error)
	Signal(names []string, sig syscall.Signal) ([]procs.Outcome, error)
	Reload(dryRun bool, done func(procs.Report, error))
	Scale(wanted []procs.Scaling, wait bool, done func([]procs.Scaled)) (cancel func(), err error)
	Shutdown(why string)
	Watch(f func()) (cancel func())
	Capture(name string) (*logs.Capture, error)
	Outputs(names []string, noneToo bool) ([]procs.Output, error)
	WatchInstances(f func()) (cancel func())
	Why(names []string) ([]procs.Facts, error)
	Tree(names []string, done func([]procs.Branch)) error
	Info() procs.Info
	Write() // has all that is known written now
}

// Options are what a server is made of.
type Options struct {
	Post       func(func()) // runs a function on the loop, from any goroutine; may drop it once the loop has ended
	Supervisor Supervisor
	Events     *eventlog.Log // what events, history and why are answered from; not nil
	Log        *slog.Logger
	Version    control.Version // pid and uptime are filled in from the supervisor
	UID        int             // who may connect, beside root
	// Upgrade prepares to execute another binary ("": superd's own file). It is called on the loop, and so is what it gets.
	Upgrade func(binary string, ready func(Upgrade, error))
}

// An Upgrade is prepared. Go does it, and returns only if it failed.
type Upgrade struct {
	Answer control.Upgrade
	Go     func()
}

// A Server answers requests until it is closed.
type Server struct {
	options       Options
	log           *slog.Logger
	http          http.Server
	ctx           context.Context // of all requests; done at Close
	end           context.CancelFunc
	stall         time.Duration // bounds the time for an answer to be read
	body          time.Duration // bounds the time for a request's body to come
	looks         chan struct{} // held by those who look at processes
	reading       chan struct{} // held by those who read arguments
	readArguments func(pid int) ([]byte, error)
	closing       chan struct{} // closed when Close begins

	closeOnce sync.Once

	mu       sync.Mutex
	listener *listener
}

// New returns a server that is not listening yet.
func New(o Options) *Server {
	s := &Server{options: o, log: o.Log, stall: stallTimeout, body: bodyTimeout, looks: make(chan struct{}, maxLooks),
		reading: make(chan struct{}, maxArguments), readArguments: readArguments,
		closing: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler:           mortal(s.handler()),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext:       withPeer,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers those who connect to l, a Unix socket, until Close; it then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	own := newListener(l, s.options.UID, s.log)
	s.mu.Lock()
	s.listener = own
	s.mu.Unlock()
	defer own.Close()
	if err := s.http.Serve(own); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends all requests, also those that follow or watch, and removes the socket.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { close(s.closing) })
	farewell, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	// Those who follow what has ended see its end; whoever has not gone by then is cut off below.
	_ = s.http.Shutdown(farewell)
	s.end()
	err := s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		err = errors.Join(err, s.listener.Close())
	}
	return err
}

// mortal has a panic of a handler end superd, as any other does: net/http would go on with what it has left behind.
func mortal(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == http.ErrAbortHandler {
				panic(v)
			}
			if v != nil {
				stack := debug.Stack()
				go panic(fmt.Sprintf("%v, in an answer to %s %s\n%s", v, r.Method, r.URL.Path, stack)) // where nobody recovers
				select {}
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// ask runs f on the loop and returns what it returns, unless ctx is done before.
func ask[T any](ctx context.Context, s *Server, f func() T) (T, error) {
	answer := make(chan T, 1)
	s.options.Post(func() {
		if ctx.Err() == nil {
			answer <- f()
		}
	})
	select {
	case v := <-answer:
		return v, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
