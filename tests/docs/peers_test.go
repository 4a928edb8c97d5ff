package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"superd/tests/golden"
	"superd/tests/harness"
)

// peers are the supervisors that peers.sh knows, each with what prints its version.
var peers = []struct {
	name    string
	version []string
}{
	{"superd", nil},
	{"supervisord", dpkg("supervisor")},
	{"runit", dpkg("runit")},
	{"s6", dpkg("s6")},
	{"pm2", []string{"pm2", "--version"}},
	{"foreman", dpkg("ruby-foreman")},
}

func dpkg(name string) []string { return []string{"dpkg-query", "-W", "-f", "${Version}", name} }

const comparison = "../../docs/comparison.md"

// TestPeers runs each supervisor with the same program, and compares what happens with the table in
// docs/comparison.md. With -update it writes the table.
func TestPeers(t *testing.T) {
	if !*enabled {
		t.Skip("make test-docs runs this")
	}
	rows := make([]string, len(peers))
	t.Run("each", func(t *testing.T) {
		for i, peer := range peers {
			t.Run(peer.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = row(t, peer.name, peer.version)
			})
		}
	})
	if t.Failed() {
		return
	}
	const head = "| supervisor | restart after a kill | its child, when the program is stopped | " +
		"the process above it is killed | then |\n| --- | --- | --- | --- | --- |\n"
	got := "\n" + head + strings.Join(rows, "") + "\n"
	page, err := os.ReadFile(comparison)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- peers: begin -->\n", "<!-- peers: end -->"
	before, rest, ok := strings.Cut(string(page), begin)
	want, after, okEnd := strings.Cut(rest, end)
	switch {
	case !ok || !okEnd:
		t.Fatalf("%s lacks the lines %q and %q", comparison, begin, end)
	case golden.Update():
		if err := os.WriteFile(comparison, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		if wrong := differs(want, got); wrong != "" {
			t.Errorf("%s: %s\nnow:\n%s\nrun make test-docs UPDATE=1", comparison, wrong, got)
		}
	}
}

// row runs a supervisor, and returns its row of the table.
func row(t *testing.T, name string, version []string) string {
	shown := name
	if version != nil {
		out, err := exec.CommandContext(t.Context(), version[0], version[1:]...).Output()
		lines := strings.Fields(string(out)) // pm2 prints more before its version
		if err != nil || len(lines) == 0 {
			t.Fatalf("%s is not installed: %v", name, err)
		}
		shown += " " + lines[len(lines)-1]
	}
	s := harness.NewSite(t, "")
	script, err := filepath.Abs("peers.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", script, name, s.Dir)
	cmd.Env = s.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s\n%s", shown, out)
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		found[key] = value
	}
	restart := "none: all programs are ended"
	if ms, err := strconv.Atoi(found["restart"]); err == nil {
		restart = fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	child := "stays"
	if strings.HasSuffix(found["stopped"], " 0") {
		child = "is ended"
	}
	above, ok := map[string]string{"yes": "the program goes on", "no": "the program ends"}[found["survives"]]
	then, okThen := map[string]string{
		"1 1": "it is supervised again", "1 0": "the program is started again", "2 1": "a second copy is started beside it",
	}[found["copies"]]
	if !ok || !okThen {
		t.Fatalf("not expected:\n%s", out)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", shown, restart, child, above, then)
}
