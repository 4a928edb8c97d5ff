package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// A journal listens in the place of journald.
type journal struct {
	t    *testing.T
	conn *net.UnixConn
}

func newJournal(t *testing.T, s *harness.Site) *journal {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.Path("journal"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &journal{t, conn}
}

// entry returns the fields of the next entry, nil if none comes within patience.
func (j *journal) entry(patience time.Duration) map[string]string {
	j.t.Helper()
	if err := j.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		j.t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	n, err := j.conn.Read(buffer)
	if err != nil {
		return nil
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(buffer[:n])) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		fields[name] = value
	}
	return fields
}

// mustEntry returns the next entry.
func (j *journal) mustEntry() map[string]string {
	j.t.Helper()
	fields := j.entry(harness.Deadline)
	if fields == nil {
		j.t.Fatal("no entry comes")
	}
	return fields
}

// TestJournaldAcrossKills kills superd repeatedly: each line reaches journald, in order, except for
// lines in flight, which are repeated.
func TestJournaldAcrossKills(t *testing.T) {
	t.Parallel()
	const lines = 100_000
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "seq 100000; echo '<3>end' >&2; exec sleep infinity"]
		log = { sink = "journald", address = "DIR/journal", stderr = "label", identifier = "site" }
		`)
	j := newJournal(t, s)
	d := s.Start()
	next, kills, repeats, ended := 1, 0, 0, false
	for next <= lines || !ended {
		e := j.mustEntry()
		if e["SYSLOG_IDENTIFIER"] != "site" || e["SUPERD_INSTANCE"] != "web" || len(e["SUPERD_INVOCATION_ID"]) < 16 {
			t.Fatalf("entry %v does not say whose it is", e)
		}
		if e["SUPERD_STREAM"] == "stderr" {
			if e["MESSAGE"] != "end" || e["PRIORITY"] != "3" {
				t.Fatalf("entry of standard error %v", e)
			}
			ended = true
			continue
		}
		var n int
		if _, err := fmt.Sscan(e["MESSAGE"], &n); err != nil || n > next || e["PRIORITY"] != "6" {
			t.Fatalf("entry %v, want line %d", e, next)
		}
		if n < next {
			repeats++
		} else {
			next++
		}
		if kills < 5 && n > (kills+1)*lines/10 {
			kills++
			pid := d.Pid
			s.Kill(pid, 9)
			harness.Until(t, "another superd answers", func() bool { d.FindSupervisor(); return d.Pid != pid })
		}
	}
	t.Logf("%d kills, %d lines came again", kills, repeats)
	s.WaitStatus("web", "says where its output goes", func(st harness.Status) bool { return st.LogFile == "" && st.LogSink == "journald" && st.LastLine != "" })
	if out := s.MustCtl("logs", "web"); !strings.Contains(out.Out+out.ErrOut, "journald") {
		t.Errorf("ctl logs = %q, %q, want it to say where the output is", out.Out, out.ErrOut)
	}
}

// TestSinkStalls: while a sink stalls, commands are answered and other programs go on. A program
// that may drop output does so, with an exact count; one that may not waits and loses nothing.
// Source: rows 26 and 27 of the failure table.
func TestSinkStalls(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.drops]
		command = ["seq", "100000"]
		log = { sink = "journald", address = "DIR/journal", overflow = "drop" }
		[program.waits]
		command = ["seq", "50000"]
		log = { sink = "journald", address = "DIR/journal" }
		[program.other]
		command = ["sh", "-c", "echo ready; exec sleep infinity"]
		`)
	j := newJournal(t, s)
	s.Start()
	s.WaitLog("other", "ready\n")
	s.WaitState("drops", "exited")
	if st := s.Status("waits"); st.State != "running" {
		t.Errorf("beside a journald that stalls: %v, want it to wait", st)
	}
	begin := time.Now()
	s.MustCtl("restart", "other")
	s.WaitLog("other", "ready\nready\n")
	t.Logf("another program was restarted in %v", time.Since(begin))

	bytesOf := map[string]int{}
	next, drops := 1, 0
	done := func() bool {
		st := s.Status("drops")
		return next > 50_000 && int64(bytesOf["drops"])+st.DroppedBytes == 588_895
	}
	for {
		e := j.entry(100 * time.Millisecond)
		if e == nil {
			if done() {
				break
			}
			continue
		}
		switch name := e["SUPERD_INSTANCE"]; {
		case e["SUPERD_STREAM"] == "superd":
			drops++
		case name == "waits":
			if e["MESSAGE"] != fmt.Sprint(next) {
				t.Fatalf("line %q, want %d", e["MESSAGE"], next)
			}
			next++
		default:
			bytesOf[name] += len(e["MESSAGE"]) + 1
		}
		if bytesOf["drops"] > 588_895 {
			t.Fatalf("%d bytes of 588895", bytesOf["drops"])
		}
	}
	if st := s.Status("drops"); st.DroppedBytes == 0 || st.DroppedLines == 0 {
		t.Errorf("nothing is dropped: %v", st)
	}
}

// TestRemovedWhileItsSinkStalls: the supervisor does not crash when a program is removed whose sink
// stalls.
func TestRemovedWhileItsSinkStalls(t *testing.T) {
	t.Parallel()
	const other = `[program.other]
		command = ["sleep", "infinity"]
		`
	s := harness.NewSite(t, other+`[program.prints]
		command = ["yes"]
		log = { sink = "journald", address = "DIR/journal" }
		`)
	newJournal(t, s)
	d := s.Start()
	harness.Until(t, "the sink to stall", func() bool { return strings.Contains(d.ErrOut.String(), "stalls") })
	s.Configure(other)
	s.MustCtl("reload")
	harness.Until(t, "the removal", func() bool { return len(s.All()) == 1 })
	harness.Until(t, "the lost output to be logged", func() bool { return strings.Contains(d.ErrOut.String(), "output lost") })
	if text, err := os.ReadFile(filepath.Join(s.RuntimeDir, "crash.txt")); err == nil {
		t.Errorf("superd has crashed: %s", text)
	}
}

// TestStdoutSink: superd's standard output has the whole lines of all programs, and its own.
func TestStdoutSink(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `exit_when = "all-exited"
		[defaults]
		log = { sink = "stdout", format = "json", stderr = "label" }
		restart = "never"
		[program.one]
		command = ["seq", "20000"]
		[program.two]
		command = ["sh", "-c", "seq 20000 >&2"]
		`)
	path := filepath.Join(s.Dir, "stdout")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	d := s.Launch(func(cmd *exec.Cmd) { cmd.Stdout = out })
	if status := d.Wait(); status != 0 {
		t.Fatalf("superd ended with status %d: %s", status, d.ErrOut)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{"one stdout": 1, "two stderr": 1}
	for line := range bytes.Lines(text) {
		var record struct{ Instance, Stream, Line string }
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		key := record.Instance + " " + record.Stream
		if record.Line != fmt.Sprint(next[key]) {
			t.Fatalf("record %q, want line %d", line, next[key])
		}
		next[key]++
	}
	if len(next) != 2 || next["one stdout"] != 20_001 || next["two stderr"] != 20_001 {
		t.Errorf("lines are %v, want 20000 of each", next)
	}
}

// TestShutdownWithHungSink: a sink that does not answer does not delay a shutdown, and superd
// reports what it has not received.
func TestShutdownWithHungSink(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo one; exec sleep infinity"]
		log = { sink = "syslog", address = "DIR/log" }
		`)
	d := s.Start()
	harness.Until(t, "the outage is reported", func() bool { return strings.Contains(d.ErrOut.String(), "does not get into its log") })
	s.Kill(d.Pid, syscall.SIGTERM)
	if status := d.Wait(); status != 0 {
		t.Errorf("superd ended with status %d", status)
	}
	if text := d.ErrOut.String(); !strings.Contains(text, "output lost: log not written completely") || strings.Contains(text, "waited") {
		t.Errorf("superd logged\n%s\nwant a report of the dropped output, and no wait", text)
	}
}

// TestStdoutSinkInATerminal: output of programs can't change a terminal that is superd's standard
// output. Source: row 21 of the failure table.
func TestStdoutSinkInATerminal(t *testing.T) {
	t.Parallel()
	for format, shown := range map[string]string{"text": `\x7f\u009bb`, "json": `\u007f\u009bb`} {
		s := harness.NewSite(t, `exit_when = "all-exited"
			[program.web]
			command = ["printf", 'a\033[2J\033]0;evil\007\177\302\233b\n']
			restart = "never"
			log = { sink = "stdout", format = "`+format+`" }
			`)
		screen := harness.NewTerminal(t, 80, 24)
		d := s.Launch(screen.Run)
		if status := d.Wait(); status != 0 {
			t.Fatalf("superd ended with status %d: %s", status, d.ErrOut)
		}
		harness.Until(t, "the line is shown", func() bool { return strings.Contains(screen.Screen.String(), shown) })
		// superd's own messages have colours
		for _, evil := range []string{"\x1b[2J", "\x1b]", "\x07", "\x7f", "\u009b"} {
			if text := screen.Screen.String(); strings.Contains(text, evil) {
				t.Errorf("%s: the terminal gets %q", format, text)
			}
		}
	}
}

// TestOutputOfAnEndedProgram: what is in the pipe at the exit is logged before the exit is
// reported, and what a leftover process writes later is logged, too: in each format.
func TestOutputOfAnEndedProgram(t *testing.T) {
	t.Parallel()
	var programs strings.Builder
	logs := map[string]string{
		"raw": `{ stderr = "separate" }`, "text": `{ format = "text", stderr = "label" }`, "json": `{ format = "json" }`, "dropping": `{ overflow = "drop" }`,
		"direct": `{ format = "direct" }`,
	}
	for name, log := range logs {
		fmt.Fprintf(&programs, "[program.%s]\ncommand = ['sh', '-c', '(read x < DIR/gate-%s; echo late; exec sleep infinity) & seq 5000; echo last words']\n"+
			"restart = 'never'\nkill_mode = 'process'\nlog = %s\n", name, name, strings.ReplaceAll(log, `"`, "'"))
	}
	s := harness.NewSite(t, programs.String())
	gates := map[string]func(){}
	for name := range logs {
		gates[name] = s.Gate("gate-" + name)
	}
	s.Start()
	for name, open := range gates {
		s.WaitState(name, "exited")
		s.WaitLog(name, "last words")
		open()
		s.WaitLog(name, "late")
		log := s.Log(name)
		if got := strings.Count(log, "\n"); got != 5002 {
			t.Errorf("log of %s has %d lines, want 5002", name, got)
		}
		if strings.Index(log, "last words") > strings.Index(log, "late") {
			t.Errorf("log of %s: late words come before the last ones", name)
		}
	}
	for _, p := range s.Processes() {
		if strings.Contains(p.Command, "sleep") {
			p.Kill()
		}
	}
}
