package logs

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/frame"
	"superd/logs/frame/frametest"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
	"superd/logs/sink"
)

// listen returns a socket of datagrams at path.
func listen(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// receive returns the next message.
func receive(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func TestJournald(t *testing.T) {
	address := filepath.Join(t.TempDir(), "journal")
	conn := listen(t, address)
	p := newRig(t).twoStreams(Options{Program: "web", Sink: sink.Journald, Address: address, Facility: 3})
	p.rig.do(func() { p.BeginRun("abc", false) })
	p.print("<5>one\n")
	first, err := frametest.Journal([]byte(receive(t, conn)))
	if err != nil {
		t.Fatal(err)
	}
	p.printError("two\n")
	second, err := frametest.Journal([]byte(receive(t, conn)))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(first["MESSAGE"], first["PRIORITY"], first["SUPERD_STREAM"], first["SUPERD_INVOCATION_ID"], second["MESSAGE"], second["PRIORITY"], second["SUPERD_STREAM"])
	if want := fmt.Sprint("one", "5", frame.Stdout, "abc", "two", "3", frame.Stderr); got != want {
		t.Errorf("entries say %s, want %s", got, want)
	}
	p.awaitDrained()
	if got := p.lastLine(); got != "two" {
		t.Errorf("last line = %q, want two", got)
	}
	if got := p.tail(); got != "<5>one\ntwo\n" {
		t.Errorf("tail = %q, want both lines", got)
	}
}

// TestSinkComesAndGoes: the listener may start late and stop: no line is lost.
func TestSinkComesAndGoes(t *testing.T) {
	address := filepath.Join(t.TempDir(), "log")
	p := newRig(t).program(Options{Program: "web", Sink: sink.Syslog, Address: address, Facility: 1})
	for n := range 3 {
		p.print(fmt.Sprintf("line %d\n", n))
		p.rig.poll("the failure to be logged", func() bool { return strings.Contains(p.rig.log.String(), "does not get into its log") })
		conn := listen(t, address)
		m, err := frametest.Syslog([]byte(receive(t, conn)))
		if err != nil || m.After != fmt.Sprintf("line %d", n) {
			t.Fatalf("message %+v, %v, want line %d", m, err, n)
		}
		conn.Close()
		os.Remove(address)
	}
}

func TestSyslogByUDP(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := newRig(t).program(Options{Program: "web", Sink: sink.Syslog, Address: "udp://" + conn.LocalAddr().String(), Facility: 1})
	p.print("one\ntwo\n")
	for _, want := range []string{"one", "two"} {
		if m, err := frametest.Syslog([]byte(receive(t, conn.(*net.UDPConn)))); err != nil || m.After != want {
			t.Errorf("message %+v, %v, want %s", m, err, want)
		}
	}
}

// TestSyslogByTCP: several programs share one stream of whole messages. The reader stalls for a
// while.
func TestSyslogByTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const programs, lines = 4, 3000
	r := newRig(t)
	for n := range programs {
		p := r.program(Options{Program: fmt.Sprint("p", n), Sink: sink.Syslog, Address: "tcp://" + listener.Addr().String()})
		go func() {
			for line := range lines {
				fmt.Fprintf(p.File, "%d %d %s\n", n, line, strings.Repeat("x", line%1000))
			}
		}()
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.poll("the stall to be logged", func() bool { return strings.Contains(r.log.String(), "stalls") })
	reader := bufio.NewReader(conn)
	var next [programs]int
	for range programs * lines {
		if err := conn.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
			t.Fatal(err)
		}
		head, err := reader.ReadString(' ')
		size, aerr := strconv.Atoi(strings.TrimSuffix(head, " "))
		if err != nil || aerr != nil {
			t.Fatal(head, err, aerr)
		}
		message := make([]byte, size)
		if _, err := io.ReadFull(reader, message); err != nil {
			t.Fatal(err)
		}
		m, err := frametest.Syslog(message)
		var program, line int
		if _, serr := fmt.Sscan(m.After, &program, &line); err != nil || serr != nil || line != next[program] {
			t.Fatalf("message %q: %v, %v, want lines %v next", message, err, serr, next)
		}
		next[program]++
	}
}

// TestSinkStallsAndDrops: what a stalled sink does not accept is dropped and counted, to the byte.
// The sink gets whole lines and a drop record.
func TestSinkStallsAndDrops(t *testing.T) {
	address := filepath.Join(t.TempDir(), "log")
	conn := listen(t, address)
	r := newRig(t)
	r.store.stallTimeout = 50 * time.Millisecond
	p := r.program(Options{Program: "web", Sink: sink.Journald, Address: address, Drop: true})
	const lines = 50_000
	total := 0
	for n := range lines { // the socket is not read, and the program does not wait
		line := fmt.Sprintf("line %d %s\n", n, strings.Repeat("x", n%100))
		p.print(line)
		total += len(line)
	}
	got, dropRecords := 0, 0
	last := -1
	for done := false; !done; {
		fields, err := frametest.Journal([]byte(receive(t, conn)))
		if err != nil {
			t.Fatal(err)
		}
		if fields["SUPERD_STREAM"] == frame.DropStream {
			dropRecords++
			continue
		}
		var n int
		if _, err := fmt.Sscanf(fields["MESSAGE"], "line %d ", &n); err != nil || n <= last {
			t.Fatalf("after line %d comes %q: %v", last, fields["MESSAGE"], err)
		}
		last = n
		got += len(fields["MESSAGE"]) + 1
		bytes, _ := p.Dropped()
		if int64(got)+bytes == int64(total) && last >= 0 {
			r.await(p.drained(), "the rest")
			done = true
		}
		if last == lines-1 {
			done = true
		}
	}
	// What is still in the socket's queue.
	for {
		if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 64<<10)
		n, err := conn.Read(buffer)
		if err != nil {
			break
		}
		if fields, _ := frametest.Journal(buffer[:n]); fields["SUPERD_STREAM"] != frame.DropStream {
			got += len(fields["MESSAGE"]) + 1
		} else {
			dropRecords++
		}
	}
	dropped, _ := p.Dropped()
	if dropped == 0 || int64(got)+dropped != int64(total) {
		t.Errorf("%d bytes delivered and %d dropped, want %d in all", got, dropped, total)
	}
	p.print("after\n")
	for {
		fields, err := frametest.Journal([]byte(receive(t, conn)))
		if err != nil {
			t.Fatal(err)
		}
		if fields["SUPERD_STREAM"] == frame.DropStream {
			dropRecords++
		}
		if fields["MESSAGE"] == "after" {
			break
		}
	}
	if dropRecords == 0 {
		t.Error("there is no drop record")
	}
}

// TestClosingBesideStalledSink: the close of a collector does not wait for a stalled sink.
func TestClosingBesideStalledSink(t *testing.T) {
	for _, drop := range []bool{false, true} {
		address := filepath.Join(t.TempDir(), "log")
		listen(t, address)
		r := newRig(t)
		p := r.program(Options{Program: "web", Sink: sink.Journald, Address: address, Drop: drop})
		p.print(strings.Repeat("line\n", 5000))
		r.poll("the stall to be logged", func() bool { return strings.Contains(r.log.String(), "stalls") })
		r.do(p.scope.Close)
		r.waitForStore()
	}
}

// TestOwnStandardOutput: superd's own standard output gets whole records of all programs, at the
// pace of its reader.
func TestOwnStandardOutput(t *testing.T) {
	r := newRig(t)
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(ends[0]), "reader")
	defer read.Close()
	defer unix.Close(ends[1])
	r.store.sinks.SetStdout(ends[1])
	const programs, lines = 3, 2000
	var scopes []*program
	for n := range programs {
		p := r.program(Options{Program: fmt.Sprint("p", n), Sink: sink.OwnStdout, Format: frame.Text})
		scopes = append(scopes, p)
		go func() {
			for line := range lines {
				fmt.Fprintf(p.File, "%d %d %s\n", n, line, strings.Repeat("x", line%7000))
			}
		}()
	}
	reader := bufio.NewReader(read)
	var next [programs]int
	for range programs * lines {
		record, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var at, instance, stream string
		var program, line int
		if _, err := fmt.Sscan(record, &at, &instance, &stream, &program, &line); err != nil || line != next[program] || instance != "web" || stream != frame.Stdout {
			t.Fatalf("record %.80q: %v, want lines %v next", record, err, next)
		}
		next[program]++
	}
	for _, p := range scopes {
		r.do(p.scope.Close)
	}
}

func TestOwnersAndModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	o := Options{Path: path, MaxSize: 1000, Keep: 100, Mode: 0o604, Compression: segment.Gzip}
	wantGID := uint32(os.Getegid())
	if os.Geteuid() == 0 {
		o.Owner, o.Group = "1", "1"
		if _, err := os.Stat("/etc/passwd"); err != nil {
			t.Skip(err)
		}
		wantGID = 1
	}
	r := newRig(t)
	p := r.program(o)
	for n := range 100 {
		p.log(fmt.Sprintf("line %d %s\n", n, strings.Repeat("x", 50)))
	}
	r.do(p.scope.Close)
	r.waitForStore()
	_, names := logstest.Files(t, path)
	if len(names) < 3 {
		t.Fatalf("files %v, want some rotated ones", names)
	}
	for _, name := range names {
		info := logstest.Stat(t, name)
		if mode := info.Mode & 0o777; mode != 0o604 || info.Gid != wantGID {
			t.Errorf("%s has mode %o and group %d, want 604 and %d", name, mode, info.Gid, wantGID)
		}
	}
}

// TestUnknownOwner: if a file's owner can't be set, it is written nevertheless, and that is
// reported.
func TestUnknownOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, Owner: "nobody-of-that-name"})
	p.log("one\n")
	logstest.Equal(t, "the file", logstest.ReadFile(t, path), "one\n")
	p.rig.poll("the failure to be logged", func() bool { return strings.Contains(p.rig.log.String(), "nobody-of-that-name") })
}

// TestNoReceiverByUDP: a refused datagram is lost, as UDP allows: no program waits, nothing
// counts as dropped, and it is reported once for all programs.
func TestNoReceiverByUDP(t *testing.T) {
	shared := func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	}
	elsewhere := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, Control: shared}
	// Its port is taken, and it receives from its peer only
	holder, err := elsewhere.Dial("udp", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	address := holder.LocalAddr().String()
	r := newRig(t)
	clock := time.Now()
	var mu sync.Mutex
	r.store.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	programs := []*program{r.program(Options{Program: "a", Sink: sink.Syslog, Address: "udp://" + address}), r.program(Options{Program: "b", Sink: sink.Syslog, Address: "udp://" + address, Drop: true})}
	for range 100 {
		for _, p := range programs {
			p.log("line\n")
		}
	}
	if bytes, _ := programs[1].Dropped(); bytes != 0 || strings.Contains(r.log.String(), "does not get into") || strings.Count(r.log.String(), "messages lost") != 1 {
		t.Errorf("%d bytes are dropped, and the log says\n%s", bytes, r.log)
	}
	conn, err := (&net.ListenConfig{Control: shared}).ListenPacket(t.Context(), "udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, after := range []string{"1", "2", "3"} {
		programs[0].log(after + "\n")
		if m, err := frametest.Syslog([]byte(receive(t, conn.(*net.UDPConn)))); err != nil || m.After != after {
			t.Errorf("message %+v, %v, want %s", m, err, after)
		}
		mu.Lock()
		clock = clock.Add(sink.RefusalsEndAfter)
		mu.Unlock()
	}
	r.poll("the end of the loss to be logged", func() bool { return strings.Contains(r.log.String(), "no longer lost") })
}

// TestSyslogByAStream: the listener at /dev/log may expect a stream, of messages that end with NUL.
func TestSyslogByAStream(t *testing.T) {
	address := filepath.Join(t.TempDir(), "log")
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	p := newRig(t).program(Options{Program: "web", Sink: sink.Syslog, Address: address})
	p.print("one\nt\x00wo\n")
	if err := listener.(*net.UnixListener).SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for _, want := range []string{"one", "t?wo"} {
		message, err := reader.ReadString(0)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := frametest.Syslog([]byte(strings.TrimSuffix(message, "\x00"))); err != nil || m.After != want {
			t.Errorf("message %+v, %v, want %s", m, err, want)
		}
	}
}

// TestInstancesAtOneLogger: lines of instances that share a logger have the instance's name.
func TestInstancesAtOneLogger(t *testing.T) {
	r := newRig(t)
	read, err := pipe.MakeFIFO(filepath.Join(t.TempDir(), "in"), os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	input := os.NewFile(uintptr(read), "logger")
	defer input.Close()
	path, err := os.Readlink(fmt.Sprint("/proc/self/fd/", read))
	if err != nil {
		t.Fatal(err)
	}
	p := r.program(Options{Program: "p", Sink: sink.Command, Address: path, Format: frame.Text})
	p.log("hello\n")
	if err := input.SetReadDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	record, err := bufio.NewReader(input).ReadString('\n')
	if err != nil || len(record) < len(frame.TimeLayout) || record[len(frame.TimeLayout):] != " web stdout hello\n" {
		t.Errorf("record %q, %v, want one of web", record, err)
	}
}

// TestDrainedOrFailed: a wait for output that ends at the first failed write starts another
// attempt, and gets its result.
func TestDrainedOrFailed(t *testing.T) {
	address := filepath.Join(t.TempDir(), "journal")
	r := newRig(t)
	r.store.retryDelay = func(int) time.Duration { return time.Hour }
	p := r.program(Options{Program: "web", Sink: sink.Journald, Address: address})
	drain := func() error {
		t.Helper()
		results := make(chan error, 2)
		r.do(func() {
			if p.DrainedOrFailed(func(err error) { results <- err }) {
				results <- nil
			}
		})
		select {
		case err := <-results:
			return err
		case <-time.After(testTimeout):
			t.Fatal("there is no result")
			return nil
		}
	}
	if err := drain(); err != nil {
		t.Errorf("without output: %v", err)
	}
	p.print("line\n")
	r.poll("the failure to be logged", func() bool { return strings.Contains(r.log.String(), "does not get into its log") })
	if err := drain(); err == nil {
		t.Error("without a receiver it is reported as written")
	}
	conn := listen(t, address)
	if err := drain(); err != nil {
		t.Errorf("with a receiver again: %v", err)
	}
	if fields, err := frametest.Journal([]byte(receive(t, conn))); err != nil || fields["MESSAGE"] != "line" {
		t.Errorf("entry %v, %v, want the line", fields, err)
	}
}
