package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"superd/tests/golden"
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

func renderKeys() string {
	var b strings.Builder
	base := builtin()
	for _, section := range []struct{ table, title string }{
		{"", "Top of the file"}, {"superd", "`[superd]`"}, {"control", "`[control]`"}, {"web", "`[web]`"}, {"program", "`[program.NAME]` and `[defaults]`"},
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
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, k.codec, shown, k.doc)
		}
	}
	return b.String() + "\n"
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

// TestSocketsPage: the examples of the page about sockets have no mistake.
func TestSocketsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/sockets.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```toml\n")[1:]
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		if c := mustLoad(t, text); len(c.Programs) == 0 {
			t.Errorf("example %d has no program", i)
		}
	}
	if len(blocks) == 0 {
		t.Error("the page has no examples")
	}
}
