package sandbox

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/table"
)

var (
	bed    = flag.String("bed", "", "try the escapes under systemd, too, in this test bed (see CONTRIBUTING.md)")
	update = flag.Bool("update", false, "write the tables into docs/sandbox.md, between their markers; needs -bed")
)

const page = "../../docs/sandbox.md"

// TestEscapesUnderSystemd: systemd refuses the same with keys of the same names. It prints the
// tables of all results.
func TestEscapesUnderSystemd(t *testing.T) {
	needRoot(t)
	if *bed == "" {
		t.Skip("needs -bed: make test-sandbox")
	}
	version, results := attemptUnderSystemd(t)
	for i, e := range escapes {
		got, what := results[i], e.key+" = "+e.value+", "+e.try
		if got.without != e.without {
			t.Errorf("%s: without the directives %q, want %q", what, got.without, e.without)
		}
		if e.systemd != "" && !slices.Contains(strings.Split(e.with, "|"), got.with) {
			t.Errorf("%s: with %q %q, want %q", what, e.systemd, got.with, e.with)
		}
	}
	byWay := map[way][]attempt{}
	for _, w := range ways {
		byWay[w] = attemptEscapes(t, w)
		checkAttempts(t, w, byWay[w])
	}
	text := report(version, results, byWay)
	t.Log("\n" + text)
	if *update && !t.Failed() {
		if err := table.Replace(page, "escapes", text); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPageHasEscapes: the page has a row for each escape.
func TestPageHasEscapes(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range escapes {
		if row := "| " + e.cell() + " | " + e.says + " |"; !strings.Contains(string(text), row) {
			t.Errorf("%s has no row %s: run make test-sandbox UPDATE=1", page, row)
		}
	}
}

// attemptUnderSystemd tries each escape as a unit without and with the directives. It returns the
// version of systemd, too.
func attemptUnderSystemd(t *testing.T) (version string, results []attempt) {
	t.Helper()
	const dir, port, shared, device = "/opt/escapes", "4000", "/var/tmp/shared", "/dev/superd-escape"
	replace := strings.NewReplacer("DIR", dir, "PORT", port, "SHARED", shared, "DEVICE", device).Replace
	files, units := t.TempDir(), t.TempDir()
	layOut(t, files, dir)
	unit := func(name string, e escape, directives ...string) {
		text := fmt.Sprintf("[Service]\nType=oneshot\nStandardOutput=file:/run/said/%s\nExecStart=%s/child probe %s\n",
			name, dir, replace(e.try))
		if e.user {
			text += "User=daemon\n"
		}
		text += replace(strings.Join(directives, "\n")) + "\n"
		if err := os.WriteFile(filepath.Join(units, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range escapes {
		unit(unitName("without", i), e, e.bare)
		if e.systemd != "" {
			unit(unitName("with", i), e, e.bare, e.systemd)
		}
	}
	cmd := exec.Command(*bed, "-t", "120", "-j", "-c", files+":"+dir, "-c", units+":/etc/systemd/system",
		"-c", "escapebed.sh:/opt/escapebed.sh", "--", "bash", "/opt/escapebed.sh", dir, port, shared, device)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", *bed, err, out)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, result, ofProbe := strings.Cut(rest, " "); ofProbe {
			rest = result
		}
		said[name] = rest
	}
	for i := range escapes {
		results = append(results, attempt{without: said[unitName("without", i)], with: said[unitName("with", i)]})
	}
	return said["version"], results
}

func unitName(what string, number int) string { return fmt.Sprintf("esc-%s-%d.service", what, number) }

// report returns the tables of all results.
func report(version string, systemd []attempt, byWay map[way][]attempt) string {
	var rows, rights [][]string
	reasons := map[string]bool{}
	for i, e := range escapes {
		of := systemd[i].with
		if e.systemd == "" {
			of = "has no such key"
		}
		rows = append(rows, []string{e.cell(), e.says, byWay[asRoot][i].without, byWay[asRoot][i].with, of})
		row := []string{e.cell(), e.says}
		for _, w := range ways {
			got := byWay[w][i]
			switch {
			case got.refusal != "":
				row = append(row, "start refused")
				_, reason, _ := strings.Cut(got.refusal, ": ")
				reasons[reason] = true
			case got.with == got.without:
				row = append(row, got.with+", also without")
			default:
				row = append(row, got.with)
			}
		}
		rights = append(rights, row)
	}
	head := fmt.Sprintf("%s; systemd %s; %s.\n\n", time.Now().Format("2 January 2006"), version, table.Machine())
	text := table.Wrap(head) + table.Markdown([]string{"key", "the program tries to", "without the key", "superd", "systemd"}, rows) +
		"\nBy the rights of superd:\n\n" +
		table.Markdown([]string{"key", "the program tries to", "root", "user", "root in a container", "user in a container"}, rights) +
		"\nA refused start names the key, and then says one of these:\n\n"
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		text += table.Wrap("> "+reason) + "\n"
	}
	return strings.TrimSuffix(text, "\n")
}

// cell returns the key with its value, for the page.
func (e *escape) cell() string {
	value := strings.NewReplacer("DIR", "/srv").Replace(e.value)
	return "`" + e.key + " = " + value + "`"
}
