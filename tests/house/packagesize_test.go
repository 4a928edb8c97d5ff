package house

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// A package with more lines than this, tests left out, is several packages.
const maxLines = 5000

// TestPackageSize checks that no package has more lines than a reader can know.
func TestPackageSize(t *testing.T) {
	tree := os.DirFS("../..")
	lines := map[string]int{}
	eachFile(t, tree, func(name string, entry fs.DirEntry) {
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		lines[path.Dir(name)] += bytes.Count(text, []byte("\n"))
	})
	for name, n := range lines {
		if n > maxLines {
			t.Errorf("package %s has %d lines without tests: at most %d are allowed", name, n, maxLines)
		}
	}
}
