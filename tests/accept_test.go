package tests

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// dial connects to a server, until the end of the test.
func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(harness.Deadline)); err != nil {
		t.Fatal(err)
	}
	return c
}

// line returns the next line of a connection.
func line(t *testing.T, c net.Conn) string {
	t.Helper()
	text, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// waitOpen waits until so many addresses are open.
func waitOpen(s *harness.Site, n int) {
	s.T.Helper()
	harness.Until(s.T, "the sockets are open", func() bool { return strings.Count(s.MustCtl("sockets").Out, " open ") == n })
}

// acceptSite returns a site with a program that answers each connection by a line, and then by what
// it is told.
func acceptSite(t *testing.T, more string) (s *harness.Site, address string) {
	t.Helper()
	address = freeAddress(t)
	return harness.NewSite(t, fmt.Sprintf(`
		[socket.echo]
		listen = [%q, "unix:DIR/s"]
		[program.echo]
		command = ["sh", "-c", '''echo "$SUPERD_INSTANCE $REMOTE_ADDR $REMOTE_PORT"; echo served >&2; exec cat''']
		sockets = ["echo"]
		start = "on-connect"
		accept = true
		max_connections = 3
		%s`, address, more)), address
}

// TestAccept: each connection has a process of its own, as many as max_connections at a time; more
// wait. After a kill of superd, they go on and count.
func TestAccept(t *testing.T) {
	t.Parallel()
	s, address := acceptSite(t, "")
	d := s.Start()
	waitOpen(s, 2)
	st := s.WaitState("echo", "waiting")
	if st.Reason != "waits for a connection" {
		t.Errorf("%v, want it to wait for a connection", st)
	}
	var all []net.Conn
	for i, name := range []string{"echo", "echo@2", "echo@3"} {
		c := dial(t, "tcp", address)
		host, port, _ := net.SplitHostPort(c.LocalAddr().String())
		if got, want := line(t, c), fmt.Sprintf("%s %s %s", name, host, port); got != want {
			t.Errorf("connection %d: %q, want %q", i, got, want)
		}
		if st, want := s.WaitState(name, "running"), "started by a connection from "+c.LocalAddr().String(); st.Reason != want {
			t.Errorf("%v, want %q", st, want)
		}
		all = append(all, c)
	}
	waits := dial(t, "unix", s.Path("s"))
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	s.WaitState("echo@3", "running")
	if out := s.MustCtl("sockets").Out; strings.Count(out, "superd: 3 of 3 connections") != 2 {
		t.Errorf("sockets: %s", out)
	}
	if out := s.MustCtl("events").Out; !strings.Contains(out, "it has 3, as max_connections allows") {
		t.Errorf("events: %s", out)
	}
	if st := s.Status("echo"); st.State != "running" {
		t.Errorf("%v, want it running", st)
	}
	fmt.Fprintln(all[1], "hello")
	if got := line(t, all[1]); got != "hello" {
		t.Errorf("%q, want hello", got)
	}
	all[1].Close()
	if got := line(t, waits); got != "echo@2  " {
		t.Errorf("%q, want that it has the place of the second connection", got)
	}
	if out := s.MustCtl("logs", "echo").Out; strings.Count(out, "served") != 4 {
		t.Errorf("logs: %s", out)
	}
	// A stop ends the processes, and no connection is accepted
	s.MustCtl("stop", "echo")
	if text, err := io.ReadAll(all[0]); len(text) > 0 || err != nil {
		t.Errorf("after the stop: %q, %v", text, err)
	}
	waits = dial(t, "tcp", address)
	s.MustCtl("start", "echo")
	if got := line(t, waits); !strings.HasPrefix(got, "echo ") {
		t.Errorf("%q, want an answer of echo", got)
	}
}

// TestConnectionFlood: connections without pause to programs that fail at once cost superd a
// bounded number of starts, and little processor time.
func TestConnectionFlood(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		start = "on-connect"
		command = "false"
		[socket.accepts]
		listen = "unix:DIR/accepts"
		backlog = 8
		[program.accepts]
		sockets = ["accepts"]
		accept = true
		[socket.starts]
		listen = "unix:DIR/starts"
		backlog = 8
		[program.starts]
		sockets = ["starts"]
		start_limit = { failures = 0 }
		`)
	d := s.Start()
	waitOpen(s, 2)
	var flood sync.WaitGroup
	over := make(chan struct{})
	for _, name := range []string{"accepts", "starts"} {
		for range 4 {
			flood.Go(func() {
				for {
					select {
					case <-over:
						return
					default: // a refusal counts, too: the backlog is full
						if c, err := net.DialTimeout("unix", s.Path(name), time.Second); err == nil {
							c.Close()
						}
					}
				}
			})
		}
	}
	starts := func(name string) int {
		return strings.Count(d.ErrOut.String(), `msg="program started" instance=`+name)
	}
	harness.Until(t, "both programs are started", func() bool { return starts("accepts") > 100 && starts("starts") > 0 })
	const window = 5 * time.Second
	cpu, accepted, started, begin := s.CPUTicks(d.Pid), starts("accepts"), starts("starts"), time.Now()
	harness.Window(t, window)
	spent, took := time.Duration(s.CPUTicks(d.Pid)-cpu)*10*time.Millisecond, time.Since(begin)
	accepted, started = starts("accepts")-accepted, starts("starts")-started
	close(over)
	flood.Wait()
	t.Logf("in %v: %v of processor time, %d and %d starts", took, spent, accepted, started)
	seconds := int(took/time.Second) + 2
	if accepted > 100*seconds {
		t.Errorf("%d starts for connections, want 100 within a second at most", accepted)
	}
	if started > 20*seconds { // one by a connection, and those of the backoff
		t.Errorf("%d starts by connections, want them bounded by the backoff", started)
	}
	if spent > took/2 {
		t.Errorf("superd has spent %v in %v", spent, took)
	}
}

// TestAcceptPassing: a process gets its connection as systemd passes it, and a reload, an upgrade
// and a restart of superd leave those that are open.
func TestAcceptPassing(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	configure := func(text string) {
		s.Configure(fmt.Sprintf(`
			[socket.echo]
			listen = "unix:DIR/s"
			[program.echo]
			command = ["sh", "-c", 'echo %s $LISTEN_FDS $LISTEN_FDNAMES $((LISTEN_PID - $$$$)) >&3; exec cat <&3 >&3']
			sockets = ["echo"]
			socket_pass = "systemd"
			start = "on-connect"
			accept = true
			`, text))
	}
	configure("one")
	d := s.Start()
	waitOpen(s, 1)
	first := dial(t, "unix", s.Path("s"))
	if got := line(t, first); got != "one 1 connection 0" {
		t.Errorf("%q, want one connection", got)
	}
	configure("two")
	s.MustCtl("reload")
	second := dial(t, "unix", s.Path("s"))
	if got := line(t, second); got != "two 1 connection 0" {
		t.Errorf("%q, want the new command", got)
	}
	s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	third := dial(t, "unix", s.Path("s"))
	for i, c := range []net.Conn{third, second, first} {
		if i == 0 {
			line(t, c)
		}
		fmt.Fprintln(c, "still here")
		if got := line(t, c); got != "still here" {
			t.Errorf("connection %d: %q", i, got)
		}
	}
	s.MustCtl("restart", "echo")
	if text, err := io.ReadAll(first); len(text) > 0 || err != nil {
		t.Errorf("after the restart: %q, %v", text, err)
	}
	if got := line(t, dial(t, "unix", s.Path("s"))); got != "two 1 connection 0" {
		t.Errorf("%q, want that it accepts again", got)
	}
	for _, args := range [][]string{{"scale", "echo=3"}, {"restart", "--rolling", "echo"}} {
		if r := s.Ctl(args...); r.Exit == 0 || !strings.Contains(r.Out+r.ErrOut, "it has a process for each connection") {
			t.Errorf("ctl %v: exit status %d, %s%s", args, r.Exit, r.Out, r.ErrOut)
		}
	}
}

// TestConnectionsPerSource: what one address has too many of is closed at once, and others are
// served. When one has ended, the next is served.
func TestConnectionsPerSource(t *testing.T) {
	t.Parallel()
	s, address := acceptSite(t, "max_connections_per_source = 1")
	s.Start()
	waitOpen(s, 2)
	first := dial(t, "tcp", address)
	line(t, first)
	if n, err := dial(t, "tcp", address).Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a second connection of the address is served: %d, %v", n, err)
	}
	line(t, dial(t, "unix", s.Path("s"))) // it has no address
	line(t, dial(t, "unix", s.Path("s")))
	if out := s.MustCtl("sockets").Out; !strings.Contains(out, "superd: 3 of 3 connections, 1 refused, last from 127.0.0.1") {
		t.Errorf("ctl sockets: %s, want the refusal", out)
	}
	if out := s.MustCtl("events").Out; !strings.Contains(out, "127.0.0.1 has 1, as max_connections_per_source allows") {
		t.Errorf("ctl events: %s, want the refusal", out)
	}
	first.Close()
	harness.Until(t, "the address is served again", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		text, _ := bufio.NewReader(c).ReadString('\n')
		return strings.HasPrefix(text, "echo")
	})
}

// TestFloodOfRefused: connections that are closed at once are throttled, too.
func TestFloodOfRefused(t *testing.T) {
	t.Parallel()
	s, address := acceptSite(t, "max_connections_per_source = 1")
	s.Start()
	waitOpen(s, 2)
	line(t, dial(t, "tcp", address))
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if c, err := net.Dial("tcp", address); err == nil {
					c.Close()
				}
			}
		})
	}
	defer flood.Wait()
	defer cancel()
	harness.Until(t, "the flood is throttled", func() bool {
		return strings.Contains(s.MustCtl("events").Out, "1000 were refused within a second")
	})
}
