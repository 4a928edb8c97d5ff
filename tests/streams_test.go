package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/tests/harness"
)

func TestSeparateStderr(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.raw]
		command = ["sh", "-c", "echo out; echo err >&2; exec sleep infinity"]
		log = { stderr = "separate" }
		[program.named]
		command = ["sh", "-c", "echo out; echo err >&2; exec sleep infinity"]
		log = { stderr = "separate", stderr_file = "errors/named.txt", format = "json" }
		[program.direct]
		command = ["sh", "-c", "echo out; echo err >&2; exec sleep infinity"]
		log = { stderr = "separate", format = "direct" }
		[program.merged]
		command = ["sh", "-c", "echo out; echo err >&2; exec sleep infinity"]
		`)
	s.Start()
	for _, name := range []string{"raw", "direct"} {
		s.WaitLog(name, "out\n")
		s.WaitLog(name+".err", "err\n")
		if got := s.Log(name); got != "out\n" {
			t.Errorf("log of %s = %q, want standard output alone", name, got)
		}
	}
	s.WaitLog("merged", "out\nerr\n")
	harness.Until(t, "the records of standard error are there", func() bool {
		text, err := os.ReadFile(s.LogDir + "/errors/named.txt")
		return err == nil && strings.Contains(string(text), `"stream":"stderr","partial":false,"line":"err"`)
	})
	st := s.Status("raw")
	if want := s.LogDir + "/raw.err.log"; st.StderrFile != want {
		t.Errorf("stderr_file = %q, want %q", st.StderrFile, want)
	}
}

// TestStderrLabelled: what a program writes to both streams in turn, with time between, is in the
// file in that order, each line labelled with its stream.
func TestStderrLabelled(t *testing.T) {
	t.Parallel()
	const lines = 50
	s := harness.NewSite(t, `
		[program.both]
		command = ["sh", "-c", "i=0; while [ $i -lt 50 ]; do echo out $i; read x < DIR/gate$i; echo err $i >&2; i=$((i+1)); done; exec sleep infinity"]
		log = { stderr = "label", format = "text" }
		`)
	var gates []func()
	for i := range lines {
		gates = append(gates, s.Gate(fmt.Sprintf("gate%d", i)))
	}
	s.Start()
	for i, open := range gates {
		// So that it is written before the program goes on
		s.WaitLog("both", fmt.Sprintf("stdout out %d\n", i))
		open()
	}
	s.WaitLog("both", fmt.Sprintf("stderr err %d\n", lines-1))
	last := map[string]int{"stdout": -1, "stderr": -1}
	for line := range strings.Lines(s.Log("both")) {
		var at, stream, word string
		var n int
		if _, err := fmt.Sscan(line, &at, &stream, &word, &n); err != nil || n != last[stream]+1 || !strings.HasSuffix(stream, word) {
			t.Fatalf("record %q after %v", line, last)
		}
		last[stream] = n
		// Lines written at once, "err 1" and "out 2", may come in either order.
		if d := last["stdout"] - last["stderr"]; d < 0 || d > 2 {
			t.Fatalf("record %q is out of order", line)
		}
	}
}

// TestStderrAcrossCrashAndReload: the streams survive the end of superd, and a change of their
// logs.
func TestStderrAcrossCrashAndReload(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo out $SUPERD_INVOCATION_ID; echo err $SUPERD_INVOCATION_ID >&2; read x < DIR/gate; echo late out; echo late err >&2; exec sleep infinity"]
		log = { stderr = "separate" }
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("web.err", "err ")
	pid := s.Status("web").Pid
	s.Kill(d.Pid, 9)
	open() // while there may be no reader
	s.WaitLog("web", "late out\n")
	s.WaitLog("web.err", "late err\n")
	if got := s.Status("web").Pid; got != pid {
		t.Fatalf("pid %d, was %d", got, pid)
	}
	for name, word := range map[string]string{"web": "out", "web.err": "err"} {
		if got := strings.Count(s.Log(name), word); got != 2 {
			t.Errorf("%s.log has %d lines of its stream, want 2: %q", name, got, s.Log(name))
		}
	}
	s.Configure(`
		[program.web]
		command = ["sh", "-c", "echo out; echo err >&2; exec sleep infinity"]
		log = { stderr = "label", format = "text" }
		`)
	s.MustCtl("reload")
	s.WaitLog("web", "stdout out\n")
	s.WaitLog("web", "stderr err\n")
}
