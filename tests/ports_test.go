package tests

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"superd/tests/harness"
)

// A countingPort accepts connections and records their times.
type countingPort struct {
	net.Listener
	mu sync.Mutex
	at []time.Time
}

func listenAt(t *testing.T, address string) *countingPort {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &countingPort{Listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.mu.Lock()
			p.at = append(p.at, time.Now())
			p.mu.Unlock()
			conn.Close()
		}
	}()
	return p
}

// most returns the largest number of connections within any period d, and the number of all.
func (p *countingPort) most(d time.Duration) (most, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := 0
	for i, at := range p.at {
		for at.Sub(p.at[first]) > d {
			first++
		}
		most = max(most, i-first+1)
	}
	return most, len(p.at)
}

// TestManyWaitForOnePort: two hundred programs probe one port, and two hundred more require a
// program that becomes ready by it. All begin at the same instant, when superd is killed. Their
// probes are spread over time, each succeeds once when the port is open, and commands are answered
// meanwhile.
func TestManyWaitForOnePort(t *testing.T) {
	t.Parallel()
	const count, stretch = 200, 50 * time.Millisecond
	address := "127.0.0.1:" + freePort(t)
	var programs strings.Builder
	fmt.Fprintf(&programs, "[defaults]\ncommand = 'sleep infinity'\nstart_timeout = '5m'\n[program.port]\nready = { tcp = '%s' }\n", address)
	for i := range count {
		fmt.Fprintf(&programs, "[program.asks%d]\nready = { tcp = '%s' }\n[program.needs%d]\nrequires = ['port']\n", i, address, i)
	}
	s := harness.NewSite(t, programs.String())
	d := s.Start()
	in := func(state, prefix string) (n int) {
		for _, st := range s.All() {
			if strings.HasPrefix(st.Name, prefix) && st.State == state && (state != "starting" || st.Pid != 0) {
				n++
			}
		}
		return n
	}
	harness.Until(t, "all programs that probe are started", func() bool { return in("starting", "asks") == count })
	s.Track(d.Pid).Kill()
	d.FindSupervisor()
	// Pauses grow to ready.interval, 1 s, and vary by a half. A fixed time, and no wait for an
	// event, since nothing is to happen.
	harness.Window(t, 2*time.Second)
	if n := in("starting", "asks") + in("waiting", "needs"); n != 2*count {
		t.Fatalf("%d wait for the port, which is not there; want %d", n, 2*count)
	}
	p := listenAt(t, address)
	var slowest, delayed time.Duration
	before := time.Now()
	harness.Until(t, "all are up", func() bool {
		began := time.Now()
		delayed = max(delayed, began.Sub(before)) // includes the answer before
		before = began
		up := in("running", "")
		slowest = max(slowest, time.Since(began))
		return up == 2*count+1
	})
	most, all := p.most(stretch)
	if all < count+1 || all > count+10 {
		t.Errorf("%d connections, want one of each of the %d programs that wait for it", all, count+1)
	}
	// Probes due while superd, or this test, was delayed come together. Pauses last half a second
	// to one and a half.
	if most > 3*count/4 && delayed < 400*time.Millisecond {
		t.Errorf("%d of %d connections came within %v", most, all, stretch)
	}
	if slowest > 2*time.Second {
		t.Errorf("control took %v to answer meanwhile", slowest)
	}
	for _, st := range s.All() {
		if st.Restarts != 0 {
			t.Errorf("%v, want no restart", st)
		}
	}
	t.Logf("%d connections, %d at most within %v; slowest answer %v; held up for %v at most", all, most, stretch, slowest, delayed)
}
