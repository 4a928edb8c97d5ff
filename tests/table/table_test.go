package table

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const page = "# Page\n<!-- a:begin -->\n<!-- a:end -->\n<!-- b:begin -->\nkept\n<!-- b:end -->\n"
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	text := Markdown([]string{"what", "figure"}, [][]string{{"x", "1"}, {"y", "2"}})
	for range 2 { // the second replaces the first
		if err := Replace(path, "a", text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Page\n<!-- a:begin -->\n| what | figure |\n|---|---|\n| x | 1 |\n| y | 2 |\n<!-- a:end -->\n" +
		"<!-- b:begin -->\nkept\n<!-- b:end -->\n"
	if string(got) != want {
		t.Errorf("the page is\n%s, want\n%s", got, want)
	}
	if err := Replace(path, "c", text); err == nil {
		t.Error("a page without the place for it was accepted")
	}
}

func TestWrap(t *testing.T) {
	row := "| " + strings.Repeat("long ", 30) + "|\n"
	text := Wrap(strings.Repeat("word ", 25) + "end\n\n" + row)
	if want := strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" +
		strings.Repeat("word ", 5) + "end\n\n" + row; text != want {
		t.Errorf("Wrap = %q, want %q", text, want)
	}
}
