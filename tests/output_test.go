package tests

import (
	"bytes"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/child"
	"superd/tests/harness"
)

// TestGrandchildKeepsPipe: an exit is reported when the process exits, not when its pipe closes,
// which a descendant may hold open for hours.
func TestGrandchildKeepsPipe(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.daemon]
		command = "child escape DIR/gate"
		restart = "never"
		kill_mode = "process"
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("daemon", "survivor ready\n")
	if st := s.WaitState("daemon", "exited"); st.Exit.String() != "0" {
		t.Errorf("after the exit: %v, want exit 0", st)
	}
	s.MustCtl("restart", "--no-wait", "daemon")
	s.WaitLog("daemon", "survivor ready\nsurvivor ready\n")
	s.WaitState("daemon", "exited")

	open()
	s.WaitLog("daemon", "late\nlate\n")
	for _, p := range s.Processes() {
		if strings.Contains(p.Command, "survivor") {
			p.Kill()
		}
	}
}

func TestClosedOutput(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.silent]
		command = "child close-output"
		`)
	d := s.Start()
	pid := s.WaitRunning()["silent"]
	harness.Until(t, "stdout is closed", func() bool { _, open := s.FDs(pid)[1]; return !open })
	before := s.CPUTicks(d.Pid)
	harness.Window(t, time.Second)
	if used := s.CPUTicks(d.Pid) - before; used > 20 {
		t.Errorf("superd used %d ms of CPU in a second beside a program with a closed stdout, want about none", used*10)
	}
	if st := s.Status("silent"); st.State != "running" || st.Pid != pid {
		t.Errorf("after it closed its stdout: %v, want running, pid %d", st, pid)
	}
}

func TestLastLineWithoutNewline(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.partial]
		command = ["printf", "first\nlast words"]
		restart = "never"
		`)
	s.Start()
	s.WaitState("partial", "exited")
	s.WaitStatus("partial", "shows its last words", func(st harness.Status) bool { return st.LastLine == "last words" })
	if got, want := s.Log("partial"), "first\nlast words"; got != want {
		t.Errorf("log = %q, want %q", got, want)
	}
	if got, want := s.MustCtl("logs", "--raw", "partial").Out, "first\nlast words"; got != want {
		t.Errorf("ctl logs = %q, want %q", got, want)
	}
}

// TestNewestCompleteLine: while the program runs, the last line shown is the newest complete one.
func TestNewestCompleteLine(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.slow]
		command = ["sh", "-c", "printf 'one\ntw'; read x < DIR/gate; printf 'o\n'; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("slow", "one\ntw")
	s.WaitStatus("slow", "shows one", func(st harness.Status) bool { return st.LastLine == "one" })
	open()
	s.WaitStatus("slow", "shows two", func(st harness.Status) bool { return st.LastLine == "two" })
}

func TestHugeLine(t *testing.T) {
	t.Parallel()
	const size = 100_000_000
	s := harness.NewSite(t, `
		[program.huge]
		command = "child line 100000000"
		restart = "never"
		log = { max_size = "0B" }
		[program.other]
		command = ["sh", "-c", "read x < DIR/gate; echo answer; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	d := s.Start()
	open()
	s.WaitLog("other", "answer\n")
	s.WaitState("huge", "exited")
	s.WaitLog("huge", "x\n")
	log := s.Log("huge")
	if len(log) != size || strings.Trim(log, "x") != "\n" {
		t.Errorf("log of %d bytes, want %d and nothing but x before the newline", len(log), size)
	}
	if peak := s.KiB(d.Pid, "status", "VmHWM"); peak > 64<<10 {
		t.Errorf("superd's memory peaked at %d KiB, want it bounded", peak)
	}
	if line := s.Status("huge").LastLine; len(line) > 1024 {
		t.Errorf("last line shown with %d bytes, want 1024 at most", len(line))
	}
}

func TestFloodDelaysNoOtherProgram(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.flood1]
		command = "child flood"
		log = { max_size = "1MB", keep = 1 }
		[program.flood2]
		command = "child flood"
		log = { max_size = "1MB", keep = 1 }
		[program.other]
		command = ["sh", "-c", "echo ready; exec sleep infinity"]
		`)
	d := s.Start()
	s.WaitLog("flood1", "line")
	s.WaitLog("flood2", "line")
	for runs := 1; runs <= 5; runs++ {
		s.WaitLog("other", strings.Repeat("ready\n", runs))
		s.MustCtl("restart", "other")
	}
	if peak := s.KiB(d.Pid, "status", "VmHWM"); peak > 64<<10 {
		t.Errorf("superd's memory peaked at %d KiB, want it bounded", peak)
	}
	s.MustCtl("stop", "*")
}

func TestAnyBytes(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.binary]
		command = "cat DIR/bytes"
		restart = "never"
		[program.json]
		command = "cat DIR/bytes"
		restart = "never"
		log = { format = "json" }
		[program.escapes]
		command = "cat DIR/escapes"
		restart = "never"
		`)
	var all bytes.Buffer
	for i := range 256 * 256 {
		all.WriteByte(byte(i))
		all.WriteByte(byte(i >> 8))
	}
	all.WriteString("\n\xff\xfe half \xe2\x82 a rune \x00\n")
	s.Write("bytes", all.String())
	const nasty = "\x1b[2J\x1b]0;title\x07 red \x1b[31m \u009b31m \u202e \r\b\v\n"
	s.Write("escapes", nasty)
	s.Start()
	s.WaitState("binary", "exited")
	s.WaitState("escapes", "exited")

	s.WaitLog("binary", " a rune \x00\n")
	if got := s.Log("binary"); got != all.String() {
		t.Errorf("log of %d bytes differs from the %d bytes written", len(got), all.Len())
	}
	if got := s.MustCtl("logs", "--raw", "-n", "all", "binary").Out; got != all.String() {
		t.Errorf("ctl logs of %d bytes differs from the %d bytes written", len(got), all.Len())
	}
	s.WaitState("json", "exited")
	records := strings.Split(strings.TrimSuffix(s.WaitLog("json", "a rune"), "\n"), "\n")
	lines := 0
	for _, text := range records {
		var record struct{ Partial bool }
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Errorf("%q is not JSON: %v", text, err)
		}
		if !record.Partial { // a busy machine may interrupt the program within a line
			lines++
		}
	}
	if want := bytes.Count(all.Bytes(), []byte("\n")); lines != want {
		t.Errorf("records of %d lines, want %d", lines, want)
	}
	if got := s.WaitLog("escapes", "\n"); got != nasty {
		t.Errorf("log = %q, want %q", got, nasty)
	}
	status := s.MustCtl("status", "--json").Out
	if !json.Valid([]byte(status)) {
		t.Errorf("status --json is not JSON: %q", status)
	}
	if table := s.MustCtl("status").Out; strings.ContainsAny(table, "\x1b\x07\r\b\v\u009b") {
		t.Errorf("ctl status lets escapes through: %q", table)
	}
}

func TestRotatedFilesJoined(t *testing.T) {
	t.Parallel()
	const count = 200_000
	s := harness.NewSite(t, `
		[program.lines]
		command = "child lines 200000"
		restart = "never"
		log = { max_size = "100kB", keep = 1000 }
		`)
	s.Start()
	s.WaitState("lines", "exited")
	s.WaitLog("lines", child.Line(count))

	var joined strings.Builder
	files := s.Files("log/lines.log*")
	for _, name := range append(files[1:], files[0]) { // the current segment has the shortest name
		part := s.Read(name)
		if !strings.HasSuffix(part, "\n") || len(part) > 100_000 {
			t.Errorf("%s: %d bytes, ends in %q, want 100000 at most, cut at a line's end", name, len(part), part[max(0, len(part)-20):])
		}
		joined.WriteString(part)
	}
	if want := count * len(child.Line(1)); joined.Len() != want || len(files) < want/100_000 {
		t.Errorf("%d files with %d bytes, want %d or more with %d", len(files), joined.Len(), want/100_000, want)
	}
	n := 0
	for line := range strings.Lines(joined.String()) {
		if n++; line != child.Line(n) {
			t.Fatalf("line %d of the files joined is %q", n, line)
		}
	}
	if got := s.MustCtl("logs", "-n", "all", "lines").Out; got != joined.String() {
		t.Errorf("ctl logs of all lines has %d bytes, the files have %d", len(got), joined.Len())
	}
	if got, want := s.MustCtl("logs", "-n", "2", "lines").Out, child.Line(count-1)+child.Line(count); got != want {
		t.Errorf("ctl logs -n 2 = %q, want %q", got, want)
	}
}

func TestLogFileMovedAway(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo before; read x < DIR/gate; echo after; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("web", "before\n")
	s.Move("log/web.log", "log/moved")
	d.Signal(syscall.SIGUSR1)
	d.ErrOut.Wait(t, "log files reopened")
	open()
	s.WaitLog("web", "after\n")
	if got := s.Read("log/moved") + s.Log("web"); got != "before\nafter\n" {
		t.Errorf("both files = %q, want every line once", got)
	}
}
