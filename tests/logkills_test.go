package tests

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"

	"golang.org/x/sys/unix"
)

// A counter is a superd with a program, web, that prints numbered lines, from 1 on, when the test
// requests them.
type counter struct {
	*harness.Site
	d    *harness.Superd
	last int
}

func newCounter(t *testing.T, log string) *counter {
	t.Helper()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "exec 3<> DIR/go; while read from to <&3; do seq $from $to; done"]
		log = `+log+`
		`)
	if err := unix.Mkfifo(s.Path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &counter{s, s.Start(), 0}
}

// print makes the program print some more lines.
func (c *counter) print(lines int) {
	c.T.Helper()
	if err := os.WriteFile(c.Path("go"), fmt.Appendf(nil, "%d %d\n", c.last+1, c.last+lines), 0); err != nil {
		c.T.Fatal(err)
	}
	c.last += lines
}

// kill kills superd and waits for the next one.
func (c *counter) kill() {
	c.T.Helper()
	pid := c.d.Pid
	c.Kill(pid, syscall.SIGKILL)
	harness.Until(c.T, "another superd answers", func() bool { c.d.FindSupervisor(); return c.d.Pid != pid })
}

// A numbering checks that numbered syslog messages come without a gap. Some may be repeated.
type numbering struct {
	testing.TB
	last, repeated int
}

func (n *numbering) take(message []byte) {
	n.Helper()
	head, line, ok := strings.Cut(string(message), "] ")
	number, err := strconv.Atoi(line)
	if !ok || err != nil || !strings.HasPrefix(head, "<30>1 ") || !strings.Contains(head, ` web - stdout [superd@32473 instance="web" run="`) || number > n.last+1 {
		n.Fatalf("message %q after line %d", message, n.last)
	}
	if number <= n.last {
		n.repeated++
	}
	n.last = max(n.last, number)
}

// TestSyslogByUDPAcrossKills kills superd while it sends: each line arrives. The test sends no
// faster than the receiver reads, as UDP would drop the excess.
func TestSyslogByUDPAcrossKills(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := newCounter(t, fmt.Sprintf(`{ sink = "syslog", address = "udp://%s" }`, conn.LocalAddr()))
	n := &numbering{TB: t}
	buffer := make([]byte, 64<<10)
	for batch := range 12 {
		for c.print(50); n.last < c.last; {
			if err := conn.SetReadDeadline(time.Now().Add(harness.Deadline)); err != nil {
				t.Fatal(err)
			}
			size, _, err := conn.ReadFrom(buffer)
			if err != nil {
				t.Fatal(err)
			}
			if n.take(buffer[:size]); batch%3 == 1 && n.last == c.last-40 {
				c.kill()
			}
		}
	}
	t.Logf("%d lines came again", n.repeated)
}

// TestSyslogByTCPAcrossKills does the same by TCP, at full speed. The last message of a connection
// may be partial; it is sent again. After each kill the program prints more lines, so no connection
// can have all lines in its buffers.
func TestSyslogByTCPAcrossKills(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := newCounter(t, fmt.Sprintf(`{ sink = "syslog", address = "tcp://%s" }`, listener.Addr()))
	if err := listener.(*net.TCPListener).SetDeadline(time.Now().Add(10 * harness.Deadline)); err != nil {
		t.Fatal(err)
	}
	const batch, kills = 10_000, 4
	c.print(batch)
	n := &numbering{TB: t}
	killed, connections := 0, 0
	for ; n.last < c.last; connections++ {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for in := bufio.NewReader(conn); n.last < c.last; {
			if err := conn.SetReadDeadline(time.Now().Add(harness.Deadline)); err != nil {
				t.Fatal(err)
			}
			message, err := octetCounted(in)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if n.take(message); killed < kills && n.last > c.last-batch/2 {
				killed++
				c.kill()
				c.print(batch)
			}
		}
		conn.Close()
	}
	if connections < 2 {
		t.Errorf("%d connections after %d kills, want more than one", connections, kills)
	}
	t.Logf("%d connections, %d lines came again", connections, n.repeated)
}

// octetCounted reads a message of RFC 6587.
func octetCounted(in *bufio.Reader) ([]byte, error) {
	head, err := in.ReadString(' ')
	if err != nil {
		return nil, err
	}
	size, err := strconv.Atoi(strings.TrimSuffix(head, " "))
	if err != nil {
		return nil, err
	}
	message := make([]byte, size)
	_, err = io.ReadFull(in, message)
	return message, err
}

// TestRotatedAndCompressedAcrossKills kills superd during rotation and compression: all lines are
// there once and in order, for readers meanwhile, too.
func TestRotatedAndCompressedAcrossKills(t *testing.T) {
	t.Parallel()
	for compress, suffix := range map[string]string{"gzip": ".gz", "zstd": ".zst"} {
		t.Run(compress, func(t *testing.T) {
			t.Parallel()
			c := newCounter(t, `{ max_size = "50kB", keep = 1000, compress = "`+compress+`" }`)
			count := func(suffix string) int {
				found, err := filepath.Glob(c.Path("log/web.log.*Z" + suffix))
				if err != nil {
					t.Fatal(err)
				}
				return len(found)
			}
			for range 4 {
				rotated := count("*")
				c.print(20_000)
				harness.Until(t, "a file is rotated", func() bool { return count("*") > rotated })
				c.kill()
			}
			c.print(1000)
			harness.Until(t, "the last line comes", func() bool { return strings.HasSuffix("\n"+c.Log("web"), fmt.Sprintf("\n%d\n", c.last)) })
			harness.Until(t, "rotated files are compressed", func() bool {
				if got := c.MustCtl("logs", "-n", "all", "web").Out; got != numbered(c.last) {
					t.Fatalf("ctl logs of all lines has %d bytes, which are not the %d of the lines once and in order", len(got), len(numbered(c.last)))
				}
				return count("") == 0 && count(suffix) > 5
			})
		})
	}
}
