package golden

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Promise fails the test for a line of the file of this name in testdata/v1 that is not among those
// of now: docs/compatibility.md promises that these stay. -update adds new lines to the file.
func Promise(t *testing.T, name string, now []string) {
	t.Helper()
	path := filepath.Join("testdata", "v1", name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	promised := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, line := range promised {
		if !slices.Contains(now, line) {
			t.Errorf("%s is gone, or is another: users rely on it", line)
		}
	}
	added := slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(promised, line) })
	if len(added) == 0 {
		return
	}
	if !Update() {
		t.Errorf("%s lacks %q: go test -run %s -update, in this package", path, added, t.Name())
		return
	}
	promised = append(promised, added...)
	slices.Sort(promised)
	if err := os.WriteFile(path, []byte(strings.Join(slices.Compact(promised), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
