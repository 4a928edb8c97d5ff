package tests

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestLogFormats: each format has the lines, and the status shows them without what the format
// adds.
func TestLogFormats(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.text]
		command = ["sh", "-c", 'echo one; echo "two \"words\""; printf "last words"; exit 3']
		log = { format = "text" }
		[program.json]
		command = ["sh", "-c", 'echo one; echo "two \"words\""; printf "last words"; exit 3']
		log = { format = "json" }
		[program.direct]
		command = ["sh", "-c", 'echo one; echo "two \"words\"" >&2; readlink /proc/self/fd/1 /proc/self/fd/2; printf "last words"; exit 3']
		log = { format = "direct" }
		`)
	s.Start()
	for _, name := range []string{"text", "json", "direct"} {
		s.WaitState(name, "failed")
		if name != "direct" { // the file has no runs
			s.WaitStatus(name, "shows its last words", func(st harness.Status) bool { return st.LastLine == "last words" })
		}
		harness.Until(t, "why shows the lines of "+name, func() bool {
			return strings.Contains(s.MustCtl("why", name).Out, "| two \"words\"\n")
		})
	}
	const at = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z stdout `
	if log := s.Log("text"); !regexp.MustCompile("^" + at + "one\n" + at + "two \"words\"\n" + at + "last words\n$").MatchString(log) {
		t.Errorf("text log = %q", log)
	}
	var lines []string
	for line := range strings.Lines(s.Log("json")) {
		var record struct{ Program, Instance, Run, Stream, Line string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		if record.Program != "json" || record.Instance != "json" || len(record.Run) < 16 || record.Stream != "stdout" {
			t.Errorf("record %q does not say whose it is", line)
		}
		lines = append(lines, record.Line)
	}
	if got := strings.Join(lines, "|"); got != `one|two "words"|last words` {
		t.Errorf("lines of the json log = %s", got)
	}
	path := s.Status("direct").LogFile
	if got, want := s.Log("direct"), "one\ntwo \"words\"\n"+path+"\n"+path+"\nlast words"; got != want {
		t.Errorf("direct log = %q, want %q", got, want)
	}
	if got := s.MustCtl("logs", "--raw", "-n", "all", "direct").Out; got != s.Log("direct") {
		t.Errorf("ctl logs = %q, want the file", got)
	}
}

// TestDropOnFullDisk: a program with overflow = "drop" does not wait for a full disk, and every
// line is accounted for. Source: row 25 of the failure table.
func TestDropOnFullDisk(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.chatty]
		command = ["seq", "100000"]
		restart = "never"
		log = { file = "/dev/full", overflow = "drop" }
		`)
	s.Start()
	s.WaitState("chatty", "exited") // the pipe holds a tenth of it
	harness.Until(t, "all is counted", func() bool {
		_, body, err := s.Request("GET", "/v1/status")
		var all []struct {
			Bytes int64 `json:"dropped_bytes"`
			Lines int64 `json:"dropped_lines"`
		}
		if err != nil || json.Unmarshal(body, &all) != nil || len(all) != 1 {
			t.Fatalf("status = %s, %v", body, err)
		}
		if all[0].Lines > 100_000 || all[0].Bytes > 588_895 {
			t.Fatalf("dropped %+v, but there were 100,000 lines of 588,895 bytes", all[0])
		}
		return all[0].Lines == 100_000 && all[0].Bytes == 588_895
	})
}
