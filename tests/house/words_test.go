package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// banned is a list of words that no identifier may have, each with the term of docs/glossary.md
// that replaces it.
const banned = "testdata/banned.txt"

var word = regexp.MustCompile(`[A-Z]+(?:[^a-z]|$)|[A-Z]?[a-z]+`)

// TestWords: a word that a term of the glossary has replaced does not come back.
func TestWords(t *testing.T) {
	text, err := os.ReadFile(banned)
	if err != nil {
		t.Fatal(err)
	}
	instead := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if old, term, ok := strings.Cut(strings.TrimSpace(line), " "); ok && old != "#" {
			instead[old] = strings.TrimSpace(term)
		}
	}
	files := token.NewFileSet()
	check := func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			id, isIdent := n.(*ast.Ident)
			if !isIdent {
				return true
			}
			for _, w := range word.FindAllString(id.Name, -1) {
				if term, is := instead[strings.ToLower(w)]; is {
					t.Errorf("%v: %s: write %s instead of %q, see docs/glossary.md",
						files.Position(id.Pos()), id.Name, term, strings.ToLower(w))
				}
			}
			return true
		})
	}
	err = filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		check(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
