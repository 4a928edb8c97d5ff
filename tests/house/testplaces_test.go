package house

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// `TestA`, `TestB` in PACKAGE; the package may be in quotes
	namedTests = regexp.MustCompile("(`Test\\w+`(?:, |,? and |; )?)+ in `?([a-z][a-z/]*[a-z])`?")
	testName   = regexp.MustCompile(`Test\w+`)
	testFunc   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestPlacesOfTests checks that tests are in the packages in which the documentation says they are.
func TestPlacesOfTests(t *testing.T) {
	tree := os.DirFS(root)
	places := map[string]map[string]bool{} // packages, by test
	eachFile(t, tree, func(name string, entry fs.DirEntry) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return // another test has removed it
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			if places[m[1]] == nil {
				places[m[1]] = map[string]bool{}
			}
			places[m[1]][path.Dir(name)] = true
		}
	})
	checked := 0
	eachFile(t, tree, func(name string, entry fs.DirEntry) {
		if !strings.HasPrefix(name, "docs/") || !strings.HasSuffix(name, ".md") {
			return
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paragraphs(string(text)) {
			text := strings.Join(strings.Fields(p.text), " ")
			for _, m := range namedTests.FindAllStringSubmatch(text, -1) {
				for _, test := range testName.FindAllString(m[0], -1) {
					if checked++; !places[test][m[2]] {
						t.Errorf("%s:%d: %s is not in %s", name, p.line, test, m[2])
					}
				}
			}
		}
	})
	if checked < 100 {
		t.Errorf("%d places of tests were found, want 100 and more", checked)
	}
}
