package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestRecordsOnStdoutAreWhole: records of sink = "stdout", which may take several writes, are not
// interrupted by lines that superd run shows of other programs.
func TestRecordsOnStdoutAreWhole(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.records]
		command = ["sh", "-c", "i=0; while [ $i -lt 60 ]; do head -c 15000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done"]
		restart = "never"
		log = { sink = "stdout", format = "json" }
		[program.shown]
		command = ["sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo a line that is shown; i=$((i+1)); done"]
		restart = "never"
		`)
	out, err := os.Create(s.Path("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.Start(func(cmd *exec.Cmd) { cmd.Args, cmd.Stdout = append(cmd.Args, "--output=always"), out })
	harness.Until(t, "all is written", func() bool {
		text := s.Read("out")
		return strings.Count(text, `"program":"records"`) >= 60 && strings.Count(text, "a line that is shown\n") >= 3000
	})
	for line := range strings.Lines(s.Read("out")) {
		if strings.Contains(line, `"line":`) && !json.Valid([]byte(line)) || !strings.Contains(line, `"line":`) && strings.Contains(line, "xxx") {
			t.Fatalf("a record is torn: %.60q … %.60q", line, line[max(0, len(line)-60):])
		}
	}
}

// TestLogDirThatIsNotNeeded: if no program logs into log_dir, it may be missing or read-only.
func TestLogDirThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.Write("superd.toml", `
		[superd]
		runtime_dir = "run"
		log_dir = "/proc/none"
		[program.web]
		command = "sleep infinity"
		log.sink = "stdout"
		[program.own]
		command = "sleep infinity"
		log.file = "`+s.Path("own.log")+`"
		`)
	s.Start()
	s.WaitState("web", "running")
	s.WaitState("own", "running")
}

// TestRawOnStdout: superd's standard output has a program's raw output byte for byte.
func TestRawOnStdout(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.raw]
		command = ["printf", "one\ntwo without an end"]
		restart = "never"
		log = { sink = "stdout", format = "raw" }
		`)
	out, err := os.Create(s.Path("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.Start(func(cmd *exec.Cmd) { cmd.Stdout = out })
	harness.Until(t, "all is written", func() bool { return s.Read("out") == "one\ntwo without an end" })
}
