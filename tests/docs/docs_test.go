// Package docs runs the examples of the tutorial and of the other pages with commands, as their
// reader does: it writes the files, runs the commands in their order, and compares what they print
// with what the page shows. Each page has a fresh /etc, /var, /run and network.
//
// It also searches the site that make docs builds, with Debian's chromium: tests/web.
//
// make test-docs installs what the pages need and runs this. It needs root.
package docs

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"superd/tests/harness"
	"superd/tests/markdown"
)

var enabled = flag.Bool("docs", false, "run the pages; what they need must be installed")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

// pages are those whose commands are run.
var pages = []string{
	"../../README.md", "../../docs/tutorial.md", "../../docs/troubleshooting.md", "../../docs/howto/*.md", "../../docs/switching/*.md",
}

// firstTerminal is the title of a block that runs superd in the background.
const firstTerminal = "first terminal"

// TestPages follows each page.
//
//   - A block with a title is the file of this name.
//   - A block of sh is run in the directory of these files, by the same shell as the others of the
//     page; that of [firstTerminal] in the background.
//   - A block that follows directly, without a language, is what the command before it prints: see
//     [differs].
//   - A command apt-get install is not run: the packages must be installed.
func TestPages(t *testing.T) {
	if !*enabled {
		t.Skip("make test-docs runs this")
	}
	if os.Geteuid() != 0 {
		t.Fatal("the pages need root")
	}
	for _, pattern := range pages {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no page: %v", pattern, err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if blocks := markdown.Blocks(string(text)); hasCommands(blocks) {
				t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
					t.Parallel()
					follow(t, filepath.Clean(path), blocks)
				})
			}
		}
	}
}

func hasCommands(blocks []markdown.Block) bool {
	for _, b := range blocks {
		if b.Lang == "sh" {
			return true
		}
	}
	return false
}

// follow does what a page says.
func follow(t *testing.T, path string, blocks []markdown.Block) {
	r := newReader(t)
	mentions := func(what string) bool {
		return slices.ContainsFunc(blocks, func(b markdown.Block) bool { return strings.Contains(b.Text, what) })
	}
	if mentions("journalctl ") {
		r.startJournald()
	}
	if mentions("./superd ") { // as make build leaves it
		superd, err := exec.LookPath("superd")
		if err == nil {
			err = os.Symlink(superd, filepath.Join(r.dir, "superd"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	printed := ""
	for _, b := range blocks {
		at := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("%s:%d: "+format, append([]any{path, b.Line}, args...)...)
		}
		switch {
		case b.Lang == "sh" && strings.HasPrefix(b.Text, "apt-get install"):
			for name := range strings.FieldsSeq(strings.TrimPrefix(b.Text, "apt-get install")) {
				if strings.HasPrefix(name, "-") {
					continue
				}
				if out, err := exec.Command("dpkg-query", "-W", name).CombinedOutput(); err != nil {
					at("not installed: %s: %s", name, out)
				}
			}
		case b.Title == firstTerminal:
			if err := r.background(b.Text); err != nil {
				at("%v", err)
			}
		case b.Title != "":
			r.write(b.Title, b.Text)
		case b.Lang == "sh":
			out, err := r.run(b.Text)
			if err != nil {
				at("%v\n%s%s", err, b.Text, out)
			}
			printed = out
			t.Logf("%s:%d: %s\nprints:\n%s", path, b.Line, b.Text, out)
		case b.Lang == "" && b.Follows == 0:
			if wrong := differs(b.Text, printed); wrong != "" {
				at("%s\nprinted:\n%s\nthe page:\n%s", wrong, printed, b.Text)
			}
		}
	}
}
