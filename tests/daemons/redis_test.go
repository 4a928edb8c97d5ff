package daemons

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/harness"
)

// A lineClient has a connection to a daemon that answers in lines.
type lineClient struct {
	net.Conn
	lines *bufio.Reader
}

func (m *machine) client(protocol, address string) (*lineClient, error) {
	conn, err := m.dial(protocol, address)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(harness.Deadline))
	return &lineClient{conn, bufio.NewReader(conn)}, nil
}

// ask sends a line and returns the first line of the answer.
func (c *lineClient) ask(request string) (string, error) {
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		return "", err
	}
	line, err := c.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

// oneLine sends a line on a connection of its own.
func (m *machine) oneLine(address, request string) (string, error) {
	c, err := m.client("tcp", address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return c.ask(request)
}

// TestRedis: it has no reload. No write that it has confirmed is lost by a restart or a stop.
func TestRedis(t *testing.T) {
	m := newMachine(t, "redis", "redis-server")
	m.boot()
	for key, wanted := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapBnd": "0000000000000000"} {
		if got := m.Field(m.pid(), "status", key); got != wanted {
			t.Errorf("%s = %s, want %s, by the sandbox", key, got, wanted)
		}
	}
	const address = "127.0.0.1:6379"
	pong := func() error {
		got, err := m.oneLine(address, "PING")
		return ok(got, err, "+PONG")
	}
	confirmed := m.writes(func(n int) error {
		got, err := m.oneLine(address, fmt.Sprint("SET key", n, " ", n))
		return ok(got, err, "+OK")
	}, func() { m.MustCtl("restart", "redis") })
	kept := func() {
		t.Helper()
		if got := m.run("redis-cli", "dbsize"); got != strconv.Itoa(confirmed)+"\n" && got != strconv.Itoa(confirmed+1)+"\n" {
			t.Errorf("%s keys, want the %d that were confirmed", got, confirmed)
		}
	}
	kept()
	m.refusesRestart("/etc/redis/redis.conf", "\nbogus yes\n", `>>> 'bogus yes'`)
	m.upgrades(pong)
	m.healthy()

	slow := `EVAL "redis.log(redis.LOG_WARNING, 'under way') for i = 1, 30000000 do end return 'slow answer'" 0`
	answer := make(chan error, 1)
	go func() {
		got, err := m.oneLine(address, slow)
		answer <- ok(got, err, "$11")
	}()
	harness.Until(t, "the script runs", func() bool {
		return strings.Contains(m.read("/var/log/redis/redis-server.log"), "under way")
	})
	m.stops()
	if err := <-answer; err != nil {
		t.Errorf("the script under way at the stop: %v", err)
	}
	if st := m.Status("redis"); !strings.Contains(st.Reason, "ended by stop_command") {
		t.Errorf("%v, want that stop_command ended it", st)
	}
	m.MustCtl("start", "redis")
	kept()

	// It is stopped by SIGTERM where stop_command lacks a password.
	if got := m.run("redis-cli", "config", "set", "requirepass", "secret"); got != "OK\n" {
		t.Errorf("set a password: %q", got)
	}
	m.stops()
	if st := m.Status("redis"); !strings.Contains(st.Reason, "ended by the stop signal") {
		t.Errorf("%v, want that the stop signal ended it", st)
	}
}

// writes makes numbered writes, one after the other, while something is done. It returns the number
// of those that were confirmed. A write that fails is repeated.
func (m *machine) writes(write func(n int) error, do func()) (confirmed int) {
	m.T.Helper()
	var done sync.WaitGroup
	stop, begun := make(chan bool), make(chan bool)
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if write(confirmed) == nil {
				if confirmed++; confirmed == 20 {
					close(begun)
				}
			}
		}
	})
	<-begun
	do()
	close(stop)
	done.Wait()
	m.T.Logf("%d writes were confirmed", confirmed)
	return confirmed
}
