package torture

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

var (
	upgrades = flag.Int("torture.upgrades", 5, "how often superd is upgraded in a row")
	upgraded = flag.Int("torture.programs", 50, "how many programs there are meanwhile")
)

// TestUpgrades upgrades superd repeatedly while a client talks to one of its programs.
func TestUpgrades(t *testing.T) {
	var config strings.Builder
	config.WriteString("[program.echo]\ncommand = 'child echo DIR/port'\n")
	for i := range *upgraded - 1 {
		fmt.Fprintf(&config, "[program.p%03d]\ncommand = 'sleep infinity'\n", i)
	}
	w := &world{Site: harness.NewSite(t, config.String())}
	w.launch()
	w.awaitAnswer()
	pids := w.WaitRunning()
	client := talk(t, w.Site)
	var after resources
	for i := range *upgrades {
		was := w.now
		w.MustCtl("upgrade")
		w.awaitAnswer()
		if w.now.Pid != was.Pid {
			t.Fatalf("after upgrade %d superd has pid %d, had %d: it did not go on in place", i+1, w.now.Pid, was.Pid)
		}
		if i == 0 {
			w.before = w.resources()
		}
		after = w.resources()
	}
	if now := w.WaitRunning(); !maps.Equal(now, pids) {
		t.Errorf("pids have changed: %v, were %v", now, pids)
	}
	for _, st := range w.All() {
		if st.Restarts != 0 {
			t.Errorf("restarted: %v", st)
		}
	}
	// The limits allow for what differs from one start to the next.
	if after.descriptors > w.before.descriptors+10 || after.rssKiB > w.before.rssKiB*3/2 {
		t.Errorf("superd holds %+v after the last upgrade, %+v after the first", after, w.before)
	}
	turns := client.end()
	if t.Failed() {
		t.Logf("superd's messages:\n%s", essence(w.Read(messagesFile)))
	}
	w.stop()
	fmt.Printf("\n%d upgrades, %d programs: each kept its pid; a TCP client was answered %d times over one connection\n", *upgrades, len(pids), turns)
	fmt.Printf("superd: %d descriptors and %d KiB after the first, %d and %d after the last\n",
		w.before.descriptors, w.before.rssKiB, after.descriptors, after.rssKiB)
}

// A talker sends lines over one connection and reads each of them back.
type talker struct {
	t     *testing.T
	quit  chan struct{}
	ended chan struct{}
	turns int
}

func talk(t *testing.T, s *harness.Site) *talker {
	t.Helper()
	harness.Until(t, "the echo program listens", func() bool { return s.Read("port") != "" })
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Read("port"))
	if err != nil {
		t.Fatal(err)
	}
	c := &talker{t: t, quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer conn.Close()
		in := bufio.NewReader(conn)
		for {
			line := fmt.Sprintln("turn", c.turns)
			if err := conn.SetDeadline(time.Now().Add(harness.Deadline)); err != nil {
				t.Error(err)
				return
			}
			if _, err := io.WriteString(conn, line); err != nil {
				t.Errorf("after %d turns: %v", c.turns, err)
				return
			}
			got, err := in.ReadString('\n')
			if err != nil || got != line {
				t.Errorf("after %d turns: read %q, %v, want %q", c.turns, got, err, line)
				return
			}
			c.turns++
			select {
			case <-c.quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return c
}

// end returns the number of lines that were answered.
func (c *talker) end() int {
	close(c.quit)
	<-c.ended
	return c.turns
}
