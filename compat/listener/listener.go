// Package listener runs an event listener of supervisord under superd.
//
// A listener reads events from its standard input and answers on its standard output
// (supervisord.org/events.html). superd starts `superd eventlistener` as the program, which starts
// the listener, follows superd's event log by the control socket, and speaks the protocol with the
// listener. To superd it is a program as any other: with the listener it ends, is restarted, and
// logs what that writes to standard error. A pool has several processes of the listener, of which
// each event goes to one.
//
// One goroutine, that of [Run], has all state. Others read from superd and from the processes, and
// write to these; each may block, and ends with the context or the process.
package listener

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"superd/compat/supervisor"
)

// Options say which listener gets which events.
type Options struct {
	Command      []string
	Processes    int // of the pool
	Subscription Subscription
	Buffer       int      // how many events wait for the listener at most
	Pool         string   // name of the listener in the events
	Server       string   // identification of superd in the events
	LinesOf      []string // programs whose output is sent
	MessagesOf   []string // programs whose messages are sent: output between marks
	ServerURL    string   // of the socket for clients of supervisord; "": none
	Process      string   // name of the listener's process; those of a pool add _00 and so on
	// The instance and the invocation id of the run that the listener belongs to
	Instance, Run string

	Programs func(context.Context) (map[string]supervisor.Program, error)
	Log      func(format string, args ...any) // a message for the operator
}

// Run runs the listener and returns its exit status when it has ended: 128 and the number of the
// signal that ended it, as in a shell. That of a pool is the status of the process that has ended
// last. The error is that of a listener that can't be started, or that violates the protocol.
func Run(ctx context.Context, api API, o *Options) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o.awaitServer(ctx) // a signal still ends this process
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)

	p := newPool(ctx, o)
	if err := p.start(); err != nil {
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
	for !p.over {
		select {
		case e := <-events:
			p.queue.add(e)
		case report := <-p.reports:
			report()
		case sig := <-signals:
			p.signal(sig)
		}
		p.dispatch()
	}
	return p.status, p.err
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
