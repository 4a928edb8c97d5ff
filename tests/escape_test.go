package tests

import (
	"encoding/json"
	"strings"
	"testing"

	"superd/internal/escape"
	"superd/tests/harness"
)

// TestJSONIsSafeForTerminals: text of programs, in output, names and arguments, reaches no JSON
// output as a character that changes a terminal, and keeps its meaning.
func TestJSONIsSafeForTerminals(t *testing.T) {
	t.Parallel()
	const evil = "\u009b2J \u009d0;owned\u009c \x7f \u202egnp \u2066 \u2028 \ufeff \U000e0041."
	s := harness.NewSite(t, `
		[program.failed]
		command = ["sh", "-c", "cat DIR/evil; exit 3"]
		restart = "never"
		log.format = "json"
		[program.up]
		command = ["sh", "-c", "cat DIR/evil; read x < DIR/never", "sh", "\u009b2J \u009d0;owned\u009c \u007f \u202Egnp \u2066 \u2028 \uFEFF \U000E0041."]
		`)
	s.Write("evil", evil+"\n")
	s.Write("wrong.toml", "[program.x]\ncommand = \"\u009b2J\u202e\"\ndirectory = 1\n\"\\u009b2J\\u202E\" = 2\n")
	s.Steps("never")
	s.Start()
	s.WaitState("failed", "failed")
	s.WaitStatus("up", "has printed", func(st harness.Status) bool { return st.LastLine == evil })
	for _, tt := range []struct {
		args  []string
		exact bool // whether the printed text is among the strings
	}{
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "status", "--json"}, true},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "status", "--json", "--brief"}, false},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "logs", "--json", "up"}, true},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "logs", "--json", "failed"}, true},
		// Its format is JSON
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "logs", "--raw", "failed"}, true},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "events", "--json"}, true},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "history", "--json"}, false},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "why", "--json", "failed"}, false},
		{[]string{"ctl", "--runtime-dir", s.RuntimeDir, "tree", "--json"}, false},
		{[]string{"check", "--json", "-c", "wrong.toml"}, false},
	} {
		name := strings.Join(tt.args[len(tt.args)-2:], " ")
		out := s.Run(tt.args...).Out
		if i := strings.IndexFunc(strings.ReplaceAll(out, "\n", ""), escape.Needed); i >= 0 || out == "" {
			t.Errorf("%s prints a character raw that changes a terminal, at byte %d: %q", name, i, out)
		}
		if !json.Valid([]byte(out)) && !json.Valid([]byte(strings.SplitAfter(out, "\n")[0])) {
			t.Errorf("%s: no JSON: %q", name, out)
		}
		encoded, _ := escape.Marshal(evil)
		if tt.exact && !strings.Contains(out, string(encoded[1:len(encoded)-1])) {
			t.Errorf("%s: want %s in %q", name, encoded, out)
		}
	}
}
