package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestingPage: each test that docs/testing.md names exists, and its table has every row.
func TestTestingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 100 {
		t.Errorf("the page names %d tests, want what it had", len(named))
	}
	sources := map[string]string{} // of tests, by package
	for _, name := range named {
		where, test := name[1], name[2]
		if sources[where] == "" {
			files, err := filepath.Glob("../" + where + "/*_test.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources[where] += string(text)
			}
		}
		if !strings.Contains(sources[where], "\nfunc "+test+"(") {
			t.Errorf("docs/testing.md names %s.%s, which is not there", where, test)
		}
	}
	_, table, _ := strings.Cut(string(page), "<!-- failures:begin -->\n")
	table, _, _ = strings.Cut(table, "<!-- failures:end -->")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(table, -1)
	if len(rows) != 49 {
		t.Errorf("the table of failures has %d rows, want 49", len(rows))
	}
}
