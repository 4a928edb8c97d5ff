package tests

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// numbered returns lines with the numbers from 1 to n.
func numbered(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// repeats counts the repeated ones of numbered lines, which a crash of superd may cause, and fails
// if a line is missing or torn.
func repeats(t *testing.T, text string, lines int) (repeated int) {
	t.Helper()
	next := 1
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscan(line, &n); err != nil || line != fmt.Sprintln(n) || n > next {
			t.Fatalf("line %q, want %d", line, next)
		}
		if n < next {
			repeated++
		}
		next = max(next, n+1)
	}
	if next != lines+1 {
		t.Fatalf("the last line is %d, want %d", next-1, lines)
	}
	return repeated
}

// TestLoggerAcrossKills: a logger gets each line while superd is killed repeatedly and adopts it
// each time. It sees the end of its input after all lines, and not before.
func TestLoggerAcrossKills(t *testing.T) {
	t.Parallel()
	const lines = 300_000
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "i=0; while [ $i -lt 30 ]; do seq $((i*10000+1)) $((i*10000+10000)); i=$((i+1)); sleep 0.05; done; exec sleep infinity"]
		log = { sink = "command", command = ["sh", "-c", "cat >> DIR/out; echo end >> DIR/out"] }
		`)
	d := s.Start()
	logger := s.WaitState("web.logger", "running").Pid
	for kill := range 4 {
		harness.Until(t, "lines come", func() bool { return strings.Contains(s.Read("out"), fmt.Sprintf("\n%d\n", (kill+1)*lines/6)) })
		pid := d.Pid
		s.Kill(pid, syscall.SIGKILL)
		harness.Until(t, "another superd answers", func() bool { d.FindSupervisor(); return d.Pid != pid })
	}
	harness.Until(t, "all lines come", func() bool { return strings.HasSuffix(s.Read("out"), fmt.Sprintf("\n%d\n", lines)) })
	st := s.WaitStatus("web.logger", "runs on", func(st harness.Status) bool { return st.State == "running" })
	if st.Pid != logger || st.Restarts != 0 {
		t.Errorf("the logger is %v, want process %d as before", st, logger)
	}
	s.WaitStatus("web", "says where its output goes", func(st harness.Status) bool {
		return st.LogSink == "command" && st.LogFile == "" && st.LastLine == fmt.Sprint(lines)
	})
	if why := s.MustCtl("why", "web.logger").Out; !strings.Contains(why, "It is the logger of web") {
		t.Errorf("why = %q, want whose logger it is", why)
	}
	s.MustCtl("shutdown")
	d.Wait()
	text, ended := strings.CutSuffix(s.Read("out"), "end\n")
	if !ended {
		t.Errorf("the logger did not see the end of its input")
	}
	t.Logf("%d lines came again", repeats(t, text, lines))
}

// TestLoggerIsKilled: a killed logger is restarted and continues with what was unread: its FIFO
// outlives it, even if superd is killed meanwhile.
func TestLoggerIsKilled(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "exec 3<> DIR/go; while read from to <&3; do seq $from $to; done"]
		log = { sink = "command", command = ["sh", "-c", "exec cat >> DIR/out"] }
		`)
	if err := syscall.Mkfifo(s.Path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	last := 0
	print := func(lines int) {
		t.Helper()
		if err := os.WriteFile(s.Path("go"), fmt.Appendf(nil, "%d %d\n", last+1, last+lines), 0); err != nil {
			t.Fatal(err)
		}
		last += lines
	}
	logged := func() {
		t.Helper()
		want := numbered(last)
		harness.Until(t, "all is in the logger's file", func() bool { return len(s.Read("out")) >= len(want) })
		if got := s.Read("out"); got != want {
			t.Fatalf("the logger has %d bytes, want %d", len(got), len(want))
		}
	}
	d := s.Start()
	web := s.WaitState("web", "running").Pid
	print(1000)
	logged()
	for round := range 3 {
		old := s.WaitState("web.logger", "running").Pid
		s.Kill(old, syscall.SIGSTOP)
		harness.Until(t, "the logger is stopped", func() bool { return strings.HasPrefix(s.Field(old, "status", "State"), "T") })
		print(2000) // it stays in the FIFO, as the logger does not read
		if round > 0 {
			pid := d.Pid
			s.Kill(pid, syscall.SIGKILL)
			harness.Until(t, "another superd answers", func() bool { d.FindSupervisor(); return d.Pid != pid })
		}
		s.Kill(old, syscall.SIGKILL)
		print(3000)
		logged()
		st := s.WaitStatus("web.logger", "is another process", func(st harness.Status) bool { return st.State == "running" && st.Pid != old })
		if round == 0 && (st.Restarts != 1 || st.Exit == nil || st.Exit.Signal == nil || *st.Exit.Signal != "SIGKILL") {
			t.Errorf("the logger that was killed: %v, want its end and its restart on record", st)
		}
	}
	if st := s.Status("web"); st.Pid != web || st.State != "running" {
		t.Errorf("the program is %v, want process %d, which a logger's end does not concern", st, web)
	}
	if out := s.MustCtl("history", "web.logger").Out; !strings.Contains(out, "SIGKILL") {
		t.Errorf("history = %q, want how the logger ended", out)
	}
	// A restart, or a stop, of the logger does not affect its program.
	s.MustCtl("restart", "web.logger")
	print(500)
	logged()
	s.MustCtl("stop", "web.logger")
	print(500)
	s.MustCtl("start", "web.logger")
	logged()
	if st := s.Status("web"); st.Pid != web {
		t.Errorf("the program is %v, want process %d", st, web)
	}
	// Removed from the configuration, it ends after its program.
	s.Configure("[program.other]\ncommand = 'sleep infinity'\n")
	print(500)
	s.WaitStatus("web", "has printed", func(st harness.Status) bool { return st.LastLine == fmt.Sprint(last) })
	s.MustCtl("reload")
	harness.Until(t, "both are gone", func() bool { return len(s.All()) == 1 })
	logged()
}

// TestLoggerStalls: while a logger stalls, a program that may drop output does so, with an exact
// count in a drop record, and one that may not waits and loses nothing. Commands are answered, and
// other programs go on.
func TestLoggerStalls(t *testing.T) {
	t.Parallel()
	const lines = 100_000
	s := harness.NewSite(t, `exit_when = "all-exited"
		[defaults]
		restart = "never"
		log = { sink = "command", command = ["sh", "-c", "kill -STOP $$$$; exec cat > DIR/${SUPERD_NAME}"] }
		[program.drops]
		command = ["sh", "-c", "seq 100000; while [ ! -e DIR/enough ]; do sleep 0.02; done; echo 100001"]
		log = { overflow = "drop" }
		[program.waits]
		command = ["seq", "100000"]
		[program.json]
		command = ["sh", "-c", "seq 1 2 99999; seq 2 2 100000 >&2"]
		log = { format = "json", stderr = "label" }
		`)
	d := s.Start()
	harness.Until(t, "something is dropped", func() bool { return s.Status("drops").DroppedBytes > 0 })
	if st := s.Status("waits"); st.State != "running" {
		t.Errorf("beside a logger that stalls: %v, want it to wait", st)
	}
	for _, name := range []string{"drops", "waits", "json"} {
		s.Kill(s.Status(name+".logger").Pid, syscall.SIGCONT)
	}
	s.Write("enough", "")
	if status := d.Wait(); status != 0 { // when the programs have ended: loggers don't count
		t.Errorf("superd ended with status %d: %s", status, d.ErrOut)
	}
	if s.Read("waits.logger") != numbered(lines) {
		t.Error("what the logger of the one that waited has is not what that wrote")
	}
	next := map[string]int{"stdout": 1, "stderr": 2}
	for line := range strings.Lines(s.Read("json.logger")) {
		var stream string
		for name := range next {
			if strings.Contains(line, fmt.Sprintf(`"stream":"%s"`, name)) {
				stream = name
			}
		}
		if !strings.Contains(line, fmt.Sprintf(`"line":"%d"`, next[stream])) || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("record %q, want line %d", line, next[stream])
		}
		next[stream] += 2
	}
	if next["stdout"] != lines+1 || next["stderr"] != lines+2 {
		t.Errorf("lines are %v, want %d of each stream", next, lines/2)
	}
	last, logged, dropped := 0, 0, 0
	for line := range strings.Lines(s.Read("drops.logger")) {
		var n int
		if _, l, ok := harness.ReadDropRecord(line); ok {
			dropped += int(l)
			continue
		}
		if _, err := fmt.Sscan(line, &n); err != nil || n <= last || line != fmt.Sprintln(n) {
			t.Fatalf("line %q after %d", line, last)
		}
		last = n
		logged++
	}
	if logged+dropped != lines+1 || dropped == 0 {
		t.Errorf("%d lines are logged and %d reported as dropped, want %d in all", logged, dropped, lines+1)
	}
}
