// Package golden compares what a test makes with a file in testdata. The flag -update of the test
// binary writes the files instead.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files and tables in the documentation anew")

// Update reports whether files are to be written instead of compared.
func Update() bool { return *update }

// Check compares got with the file of this name in testdata, and shows the first line that differs.
func Check(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if Update() {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n, is, was := difference(got, string(want)); n > 0 {
		t.Errorf("%s, line %d, is\n%s\nwant\n%s\nIf that is meant: go test -run %s -update, in this package",
			path, n, is, was, t.Name())
	}
}

// difference returns the number of the first line that differs, counted from 1, with both lines. It
// returns 0 if the texts are equal.
func difference(got, want string) (n int, is, was string) {
	if got == want {
		return 0, "", ""
	}
	now, old := strings.Split(got, "\n"), strings.Split(want, "\n")
	for ; n < len(now) && n < len(old) && now[n] == old[n]; n++ {
	}
	is, was = "(the end)", "(the end)"
	if n < len(now) {
		is = now[n]
	}
	if n < len(old) {
		was = old[n]
	}
	return n + 1, is, was
}
