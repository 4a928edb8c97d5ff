package daemons

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"superd/tests/harness"
)

// rounds is how often a server is restarted under load. In a quarter of the restarts superd is
// killed, in another one it is upgraded.
var rounds = flag.Int("rounds", 4, "restarts of each server behind a held socket")

// rolls restarts the program of the example by rolling restarts.
func (m *machine) rolls() {
	m.T.Helper()
	m.disturbed(func(disturb func(before int)) {
		const begun = "rolling restart begun"
		before, programs := m.pid(), len(m.All())
		rolls := strings.Count(m.daemon.ErrOut.String(), begun)
		// A superd that is killed does not answer
		roll := m.Command("ctl", "--runtime-dir", m.RuntimeDir, "restart", "--rolling", m.name)
		var out harness.Output
		roll.Stderr = &out
		if err := roll.Start(); err != nil {
			m.T.Fatal(err)
		}
		defer func() {
			roll.Wait()
			if m.T.Failed() {
				m.T.Logf("superd ctl restart --rolling says: %s", &out)
			}
		}()
		m.daemon.ErrOut.WaitTimes(m.T, begun, rolls+1)
		disturb(before)
		m.WaitStatus(m.name, "has another process, and no extra one", func(st harness.Status) bool {
			return st.State == "running" && st.Pid != before && len(m.All()) == programs
		})
	})
}

// restarts restarts the program of the example, each time when some more requests were answered.
func (m *machine) restarts(request func() error) {
	m.T.Helper()
	m.disturbed(func(disturb func(before int)) {
		before := m.pid()
		m.MustCtl("restart", "--no-wait", m.name)
		disturb(before)
		m.WaitStatus(m.name, "has another process", func(st harness.Status) bool {
			return st.State == "running" && st.Pid != before
		})
		m.WaitRunning()
		for range 50 {
			if err := request(); err != nil {
				m.T.Errorf("a request after a restart: %v", err)
			}
		}
	})
}

// disturbed calls restart for each round. What it passes to it kills or upgrades superd: at the
// begin of a restart, or when the process before has ended, each time a little later.
func (m *machine) disturbed(restart func(disturb func(before int))) {
	m.T.Helper()
	kills, upgrades := 0, 0
	for round := range *rounds {
		restart(func(before int) {
			if round/4%2 == 1 {
				harness.Until(m.T, "the process has ended", func() bool { return m.pid() != before })
			}
			time.Sleep(time.Duration(round) * 20 * time.Millisecond)
			switch round % 4 {
			case 0:
				m.Kill(m.daemon.Pid, syscall.SIGKILL)
				m.daemon.FindSupervisor()
				kills++
			case 2:
				m.MustCtl("upgrade")
				upgrades++
			}
		})
	}
	m.T.Logf("%d restarts, during which superd was killed %d times and upgraded %d times", *rounds, kills, upgrades)
}

// losesNoRequest restarts the program while ab sends requests as fast as it can, each on a
// connection of its own. All are answered.
func (m *machine) losesNoRequest(address string) {
	m.T.Helper()
	var out harness.Output
	ab := m.command("ab", "-q", "-r", "-s", "90", "-c", "10", "-t", "1200", "-n", "10000000", "http://"+address+"/")
	ab.Stdout, ab.Stderr = &out, &out
	if err := ab.Start(); err != nil {
		m.T.Fatal(err)
	}
	m.rolls()
	ab.Process.Signal(syscall.SIGINT) // it prints what it has counted, and ends with status 1
	if err := ab.Wait(); err != nil && ab.ProcessState.ExitCode() != 1 {
		m.T.Errorf("ab: %v\n%s", err, &out)
	}
	found := regexp.MustCompile(`Complete requests: +(\d+)\nFailed requests: +(\d+)\n`).FindStringSubmatch(out.String())
	if found == nil || found[1] == "0" || found[2] != "0" || strings.Contains(out.String(), "Non-2xx") {
		m.T.Errorf("requests have failed:\n%s", &out)
		return
	}
	m.T.Logf("ab: %s requests, %s failed, %s", found[1], found[2],
		regexp.MustCompile(`Requests per second: +([\d.]+)`).FindString(out.String()))
}

// losesIdleConnections restarts the program while clients keep their connections. A server may
// close a connection between two requests, and does so when it stops: then the next request may be
// lost. No other is.
func (m *machine) losesIdleConnections(address string) {
	m.T.Helper()
	var clients sync.WaitGroup
	var ended atomic.Bool
	var served, idle atomic.Int64
	for range 4 {
		clients.Go(func() {
			for !ended.Load() {
				n, err := m.keepsAsking(address, ended.Load)
				served.Add(int64(n))
				switch {
				case errors.Is(err, errIdle):
					idle.Add(1)
				case err != nil:
					m.T.Errorf("after %d requests on this connection: %v", n, err)
					return
				}
			}
		})
	}
	m.rolls()
	ended.Store(true)
	clients.Wait()
	m.T.Logf("%d requests of clients that keep connections, %d failed on idle connections", served.Load(), idle.Load())
}

// errIdle says that the server has closed a connection, on which it had answered, before it has
// answered the next request with a single byte.
var errIdle = errors.New("closed between two requests")

// keepsAsking sends requests on one connection until it is closed or ended returns true. It returns
// how many were answered.
func (m *machine) keepsAsking(address string, ended func() bool) (answered int, err error) {
	conn, err := m.dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	for !ended() {
		conn.SetDeadline(time.Now().Add(harness.Deadline))
		_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", address)
		if err == nil {
			_, err = lines.Peek(1)
		}
		if err != nil {
			if answered > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
				err = errIdle
			}
			return answered, err
		}
		r, err := http.ReadResponse(lines, nil)
		if err != nil {
			return answered, err
		}
		_, err = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		if err == nil && r.StatusCode != http.StatusOK {
			err = errors.New(r.Status)
		}
		if err != nil {
			return answered, err
		}
		answered++
		if r.Close {
			return answered, nil
		}
	}
	return answered, nil
}

// answersAfterReload reloads a server with another configuration, which gives it another answer.
func (m *machine) answersAfterReload(address string, change func(), text string) {
	m.T.Helper()
	get := func(text string) error {
		got, err := m.get("http://" + address + "/")
		return ok(got, err, text)
	}
	stop := m.load(func() error { return get("") })
	change()
	m.MustCtl("reload", m.name)
	harness.Until(m.T, "the new configuration is in force", func() bool { return get(text) == nil })
	stop()
}
