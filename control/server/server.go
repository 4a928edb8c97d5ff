// Package server answers requests on superd's control socket: HTTP/1.1 and JSON, as docs/api.md
// describes.
//
// Each connection has its own goroutine, none of them the loop's. Only functions posted to the loop
// access the supervisor. Answers come back over a channel, so that a slow, stalled or closed client
// blocks only its own goroutine and one buffer. Permission to connect is decided by the peer
// credentials from the kernel before a byte of the request is read.
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

	"superd/alerts/deliver"
	"superd/config"
	"superd/control"
	"superd/logs"
	"superd/procs"
	"superd/procs/diagnosis"
	"superd/procs/eventlog"
	"superd/procs/host"
	"superd/procs/pty"
	"superd/procs/selection"
)

// Limits on the resources of clients.
const (
	maxConnections  = 256
	maxHeaderBytes  = 16 << 10
	maxBodyBytes    = 64 << 10
	maxCursorBytes  = 1 << 20 // a body with the cursors of all instances
	maxRefusedBytes = 4 << 20 // bytes of a too large body that are read before the answer
	// Different globs in a request: each is compared with each instance, on the loop
	maxGlobs        = 32
	headerTimeout   = 5 * time.Second
	bodyTimeout     = 5 * time.Second
	idleTimeout     = time.Minute
	stallTimeout    = 30 * time.Second       // for a client that does not read its answer
	shutdownTimeout = 500 * time.Millisecond // for clients that follow something to its end
	watchInterval   = 100 * time.Millisecond // between two answers to a watcher
	statusPart      = 64                     // instances per part of a status answer
	maxStatReads    = 2                      // concurrent reads of processes in /proc
	// Concurrent reads of arguments, which are in memory that may be paged out to disk
	maxArgumentReads = 2
	// For the newest lines and for arguments, in case a file system stalls
	lineTimeout = 30 * time.Millisecond
)

// Threads is the maximum number of threads that a server may block in the kernel. Connections do
// not block there, and readers of logs and events count among the threads of those packages.
const Threads = maxStatReads + maxArgumentReads

// A Supervisor is the server's interface to the supervisor. All methods run on the loop.
type Supervisor interface {
	Status(names []string) ([]procs.Status, error)
	Brief(names []string) ([]procs.Brief, error)
	Resolve(names []string) (instances []string, unknown []*selection.UnknownNameError)
	Command(op procs.Op, names []string, wait bool, done func([]procs.CommandResult)) (cancel func(), err error)
	RestartRolling(names []string, canary int, done func([]procs.CommandResult)) (cancel func(), err error)
	DecideRoll(names []string, d procs.RollDecision, done func([]procs.CommandResult)) (cancel func(), err error)
	ReloadPrograms(names []string, done func([]procs.CommandResult)) (cancel func(), err error)
	Signal(names []string, sig syscall.Signal) ([]procs.CommandResult, error)
	Reload(dryRun bool, done func(procs.ReloadResult, error))
	Scale(scalings []procs.Scaling, wait bool, done func([]procs.ScaleResult)) (cancel func(), err error)
	RequestShutdown(why string, recorded func(unrecorded error))
	MainPids() []int
	Watch(f func()) (cancel func())
	Collector(name string) (*logs.Collector, error)
	Outputs(names []string, noneToo bool) ([]procs.Output, error)
	WatchInstances(f func()) (cancel func())
	Why(names []string) ([]diagnosis.Diagnosis, error)
	Tree(names []string, done func([]procs.ProcessTree)) error
	Sockets(done func([]procs.SocketStatus))
	Info() procs.Info
	Write() // writes all recorded changes now
}

// Options are the arguments of New.
type Options struct {
	// Runs a function on the loop, from any goroutine; may drop it once the loop has ended
	Post       func(func())
	Supervisor Supervisor
	Meter      Meter
	Events     *eventlog.Log // source of events, history and why; not nil
	Log        *slog.Logger
	Version    control.Version // pid and uptime come from the supervisor
	ConfigPath string          // main file of the configuration
	UID        int             // user that may do everything, beside root
	// Access returns who else may connect; nil: nobody. It may be called from any goroutine.
	Access func() config.Control
	Alerts *deliver.Manager // nil: there are no receivers
	// TreeUsages returns the usage of the instances' processes beside their main processes, in the
	// order of mains. others are the pids of all main processes. It may block, and is called from
	// any goroutine.
	TreeUsages func(mains []host.MainProcess, others []int) []host.TreeUsage
	// The following are functions of procs for the supervisor. They are called on the loop.
	ConfigOf    func(names []string) ([]*config.Program, error)
	Await       func(names []string, done func([]procs.CommandResult)) (cancel func(), err error)
	ResetFailed func(names []string) ([]procs.CommandResult, error)
	Enable      func(names []string, starts bool, done func([]procs.CommandResult, error)) (cancel func(), err error)
	Execute     func(name string, uid int, o procs.ExecuteOptions) (end func(), err error)
	// Terminal returns the terminal and the name of the one instance that name selects.
	Terminal func(name string, uid int) (*pty.Terminal, string, error)
	// WhyDown returns a further sentence on an instance that failed; "": there is none. It may
	// block, and is called from any goroutine; nil: there is never one.
	WhyDown func(instance string) string
	// Upgrade prepares to execute another binary ("" for superd's own file). Upgrade and ready are
	// called on the loop.
	Upgrade func(binary string, ready func(Upgrade, error))
}

// An Upgrade is a prepared upgrade. Go executes it, and returns only if it failed.
type Upgrade struct {
	Answer control.Upgrade
	Go     func()
}

// A Server answers requests until it is closed.
type Server struct {
	options       Options
	log           *slog.Logger
	http          http.Server
	ctx           context.Context // parent of the context of each request; done at Close
	end           context.CancelFunc
	writeTimeout  time.Duration // time-out for a client to read its answer
	body          time.Duration // time-out for the body of a request
	health        time.Duration // time-out for the loop to answer
	statReads     chan struct{} // semaphore of reads of processes
	argumentReads chan struct{} // semaphore of reads of arguments
	readArguments func(pid int) ([]byte, error)
	closing       chan struct{} // closed when Close begins

	closeOnce sync.Once

	mu       sync.Mutex
	listener *listener
}

// New returns a server that is not listening yet.
func New(o Options) *Server {
	s := &Server{options: o, log: o.Log, writeTimeout: stallTimeout, body: bodyTimeout, health: healthTimeout, statReads: make(chan struct{}, maxStatReads),
		argumentReads: make(chan struct{}, maxArgumentReads), readArguments: readArguments,
		closing: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler:           crashOnPanic(s.handler()),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext:       withPeer,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers clients of l, a Unix socket, until Close; it then returns nil. It closes l.
func (s *Server) Serve(l net.Listener) error {
	own := newListener(l, s.options.UID, s.access, s.log)
	s.mu.Lock()
	s.listener = own
	s.mu.Unlock()
	defer own.Close()
	if err := s.http.Serve(own); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeAs answers clients of l by h, with the same permissions and limits as for the control
// socket, until close is called. It takes over l.
func (s *Server) ServeAs(l net.Listener, h http.Handler) (close func() error) {
	own := newListener(l, s.options.UID, s.access, s.log)
	other := &http.Server{Handler: crashOnPanic(h), ConnContext: withPeer, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ErrorLog: s.http.ErrorLog,
		BaseContext: func(net.Listener) context.Context { return s.ctx }}
	go func() {
		if err := other.Serve(own); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("socket not served", "address", l.Addr(), "error", err)
		}
	}()
	return func() error { return errors.Join(other.Close(), own.Close()) }
}

// Permissions returns what the user at the other end of a request may do.
func Permissions(r *http.Request) (operator, owner bool) {
	c, ok := r.Context().Value(peerKey{}).(*connection)
	return ok && c.role >= roleOperator, ok && c.role >= roleOwner
}

// Close ends all requests, also those that follow or watch, and removes the socket.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { close(s.closing) })
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	// Followers see the end of what they follow; clients still connected after that are cut off
	// below.
	_ = s.http.Shutdown(ctx)
	s.end()
	err := s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		err = errors.Join(err, s.listener.Close())
	}
	return err
}

func (s *Server) access() config.Control {
	if s.options.Access == nil {
		return config.Control{}
	}
	return s.options.Access()
}

// crashOnPanic makes a panic of a handler end superd, like any other panic. net/http would recover
// from it and continue with inconsistent state.
func crashOnPanic(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				panic(v)
			}
			if v != nil {
				stack := debug.Stack()
				// On a goroutine without recover.
				go panic(fmt.Sprintf("%v, in an answer to %s %s\n%s", v, r.Method, r.URL.Path, stack))
				select {}
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// onLoop runs f on the loop and returns its result, or an error if ctx is done first.
func onLoop[T any](ctx context.Context, s *Server, f func() T) (T, error) {
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
