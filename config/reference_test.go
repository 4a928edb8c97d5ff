package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"superd/config/receiver"
	"superd/tests/golden"
	"superd/tests/markdown"
)

const reference = "../docs/reference.md"

// TestReferenceIsUpToDate renders the table of keys into docs/reference.md: go test ./config
// -update
func TestReferenceIsUpToDate(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- keys: begin -->\n", "<!-- keys: end -->"
	before, rest, ok := strings.Cut(string(data), begin)
	old, after, okEnd := strings.Cut(rest, end)
	if !ok || !okEnd {
		t.Fatalf("%s lacks the lines %q and %q", reference, begin, end)
	}
	rendered := renderKeys()
	if old == rendered {
		return
	}
	if !golden.Update() {
		t.Fatalf("%s is out of date: run go test ./config -update", reference)
	}
	if err := os.WriteFile(reference, []byte(before+begin+rendered+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReferenceSaysWhatRestarts compares the keys that docs/reference.md says need a restart with
// what a reload does.
func TestReferenceSaysWhatRestarts(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(data), " | restart needed: ")
	row := before[strings.LastIndex(before, "\n")+1:]
	if !ok {
		t.Fatalf("%s lacks the row", reference)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(row, -1) {
		named[m[1]] = true
	}
	for key, e := range effects() {
		table, _, _ := strings.Cut(key, ".")
		if has, want := named[key] || named[table], e == withNextRun; has != want {
			t.Errorf("%s: that %s needs a restart: %v, want %v", reference, key, has, want)
		}
	}
}

func renderKeys() string {
	var b strings.Builder
	base := builtin()
	for _, section := range []struct{ table, title string }{
		{"", "Top of the file"}, {"superd", "`[superd]`"}, {"control", "`[control]`"}, {"compat", "`[compat]`"}, {"web", "`[web]`"},
		{"program", "`[program.NAME]` and `[defaults]`"},
		{"socket", "`[socket.NAME]`"},
	} {
		fmt.Fprintf(&b, "\n### %s\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n", section.title)
		for _, k := range keys() {
			if k.table != section.table {
				continue
			}
			shown := k.defaultText
			if value := k.shown(base); shown == "" && value != "" {
				shown = "`" + value + "`"
			}
			b.WriteString(keyRow(k.table, k.name, k.codec, shown, k.doc))
		}
	}
	b.WriteString("\n### `[notify.NAME]`\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, k := range receiver.Keys() {
		shown := k.Instead
		if shown == "" && k.Default != "" {
			shown = "`" + k.Default + "`"
		}
		b.WriteString(keyRow("notify", k.Name, k.Codec, shown, k.Doc))
	}
	return b.String() + "\n"
}

// keyRow returns the row of a key, with an anchor such as program.kill_mode.
func keyRow(table, name, codec, shown, doc string) string {
	id := name
	if table != "" {
		id = table + "." + name
	}
	return fmt.Sprintf("| <a id=\"%s\"></a>`%s` | %s | %s | %s |\n", id, name, codec, shown, doc)
}

func TestKeysAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range keys() {
		if id := k.table + "/" + k.name; seen[id] {
			t.Errorf("%s stands twice in the table", id)
		} else {
			seen[id] = true
		}
		if k.codec == "" || !strings.HasSuffix(k.doc, ".") || strings.Contains(k.doc+k.codec+k.defaultText, "|") {
			t.Errorf("%s.%s lacks a type or a meaning, or would break the table", k.table, k.name)
		}
	}
}

// TestPages: the examples of the pages about sockets and alerts, of the tutorial and of those that
// make test-docs runs have no mistake.
func TestPages(t *testing.T) {
	pages := []string{"../README.md", "../docs/sockets.md", "../docs/alerts.md", "../docs/tutorial.md", "../docs/troubleshooting.md"}
	for _, pattern := range []string{"../docs/howto/*.md", "../docs/switching/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no page: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range markdown.Blocks(string(page)) {
			if b.Lang != "toml" {
				continue
			}
			text := b.Text
			if name == "../docs/alerts.md" { // programs that the examples select
				text += "[program.web2]\ncommand = \"x\"\ngroups = [\"backend\"]\n"
			}
			if c := mustLoad(t, text); len(c.Programs) == 0 {
				t.Errorf("%s:%d: the example has no program", name, b.Line)
			}
		}
	}
}
