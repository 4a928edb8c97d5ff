// Package listener runs an event listener of supervisord under superd.
//
// A listener reads events from its standard input and answers on its standard output
// (supervisord.org/events.html). superd starts `superd eventlistener` as the program, which starts
// the listener, follows superd's event log by the control socket, and speaks the protocol with the
// listener. To superd it is a program as any other: with the listener it ends, is restarted, and
// logs what that writes to standard error.
//
// One goroutine, that of [Run], has all state. Others read from superd and from the listener, and
// write to the listener; each may block, and ends with the context.
package listener

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"superd/compat/supervisor"
)

// Options say which listener gets which events.
type Options struct {
	Command      []string
	Subscription Subscription
	Buffer       int      // how many events wait for the listener at most
	Pool         string   // name of the listener in the events
	Server       string   // identification of superd in the events
	LinesOf      []string // programs whose output is sent
	MessagesOf   []string // programs whose messages are sent: output between marks
	ServerURL    string   // of the socket for clients of supervisord; "": none
	Process      string   // name of the listener's process
	// The instance and the invocation id of the run that the listener belongs to
	Instance, Run string

	Programs func(context.Context) (map[string]supervisor.Program, error)
	Log      func(format string, args ...any) // a message for the operator
}

// killDelay is how long a listener that violates the protocol may take to end.
const killDelay = 10 * time.Second

// Run runs the listener and returns its exit status when it has ended: 128 and the number of the
// signal that ended it, as in a shell. The error is that of a listener that can't be started, or
// that violates the protocol.
func Run(ctx context.Context, api API, o *Options) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.awaitServer(ctx) // a signal still ends this process
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	child, err := start(ctx, o)
	if err != nil {
		return 0, fmt.Errorf("start event listener: %w", err)
	}
	events := make(chan Event)
	s := &source{Options: o, api: api, events: events}
	go s.log(ctx)
	if o.Subscription.hasAny("TICK") {
		go s.ticks(ctx)
	}
	if len(o.LinesOf) > 0 && o.Subscription.hasAny("PROCESS_LOG") {
		go s.lines(ctx)
	}
	if len(o.MessagesOf) > 0 && o.Subscription.hasAny("PROCESS_COMMUNICATION") {
		go s.messages(ctx)
	}
	if o.ServerURL != "" && o.Subscription.Has("REMOTE_COMMUNICATION") {
		go s.remote(ctx)
	}
	r := &relay{Options: o, child: child, queue: queue{limit: o.Buffer}}
	for {
		select {
		case e := <-events:
			r.queue.add(e)
		case text, open := <-child.output:
			if !open {
				child.output = nil // the listener is about to end, or can't answer any more
			} else if r.violation == nil {
				r.read(text)
			}
		case sig := <-signals:
			child.signal(sig)
		case <-r.kill:
			child.kill()
		case status := <-child.ended:
			if r.violation != nil {
				return 0, r.violation
			}
			return status, nil
		}
		r.dispatch()
	}
}

// serverTimeout bounds the wait for the socket for clients of supervisord.
const serverTimeout = 10 * time.Second

// awaitServer waits until the socket that the listener may call is open: superd opens it while it
// starts its programs, and supervisord before that.
func (o *Options) awaitServer(ctx context.Context) {
	path, isUnix := strings.CutPrefix(o.ServerURL, "unix://")
	if !isUnix {
		return
	}
	for pause, began := time.Millisecond, time.Now(); ; pause = min(2*pause, shortestPause) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			conn.Close()
			return
		}
		if time.Since(began) > serverTimeout {
			o.Log("the socket of SUPERVISOR_SERVER_URL is not open: %v; check compat.supervisor_socket", err)
			return
		}
		time.Sleep(pause)
	}
}

// A relay speaks with the listener.
type relay struct {
	*Options
	child *child
	protocol
	queue queue

	current   numbered // the event whose result is due
	violation error    // nil: the listener keeps to the protocol
	kill      <-chan time.Time
}

// read takes what the listener has written.
func (r *relay) read(text []byte) {
	result, done, err := r.protocol.read(text)
	if done && result != "OK" {
		r.Log("event %d (%s) was rejected with %s, and is sent again", r.current.serial, r.current.Name, excerpt([]byte(result)))
		r.queue.putBack(r.current)
	}
	if err == nil {
		return
	}
	// supervisord keeps such a process and sends it nothing any more. Ended it is restarted.
	r.violation = fmt.Errorf("end event listener: %w", err)
	r.child.terminate()
	r.kill = time.After(killDelay)
}

// dispatch sends the next event if the listener is ready for one.
func (r *relay) dispatch() {
	// One that answers without reading gets no more than it has room for
	if r.phase != ready || r.violation != nil || len(r.child.input) == cap(r.child.input) {
		return
	}
	e, ok := r.queue.next()
	if !ok {
		return
	}
	if n := r.queue.takeDropped(); n > 0 {
		r.Log("%d of the oldest events dropped: the listener was not ready in time, and --buffer is %d", n, r.Buffer)
	}
	r.current = e
	r.protocol.sent()
	r.child.input <- e.envelope(r.Server, r.Pool)
}

// A child is the process of the listener.
type child struct {
	cmd    *exec.Cmd
	input  chan<- []byte // room for one event: the next is sent when the listener has answered
	output <-chan []byte // closed at the end of its output
	ended  <-chan int    // exit status
}

// start starts the listener.
func start(ctx context.Context, o *Options) (*child, error) {
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Env = append(os.Environ(), "SUPERVISOR_ENABLED=1",
		"SUPERVISOR_PROCESS_NAME="+o.Process, "SUPERVISOR_GROUP_NAME="+o.Pool)
	cmd.Stderr = os.Stderr
	detach(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	input, output, ended := make(chan []byte, 1), make(chan []byte), make(chan int, 1)
	go func() {
		for {
			select {
			case text := <-input:
				_, _ = stdin.Write(text) // after an error the listener ends, or gets no more
			case <-ctx.Done():
				return
			}
		}
	}()
	go func() {
		defer close(output)
		for {
			text := make([]byte, 4096)
			n, err := stdout.Read(text)
			if n > 0 {
				select {
				case output <- text[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		state, err := cmd.Process.Wait()
		if err != nil {
			ended <- statusUnknown
			return
		}
		ended <- statusOf(state)
	}()
	return &child{cmd, input, output, ended}, nil
}

func (c *child) signal(sig os.Signal) { _ = c.cmd.Process.Signal(sig) } // an error: it has ended
func (c *child) terminate()           { c.signal(terminate) }
func (c *child) kill()                { _ = c.cmd.Process.Kill() }
