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

// article finds a name with the wrong article, such as "A Info" or "An CommandResult".
var article = regexp.MustCompile(`\b(?:[Aa] (?:[AEIO]|Un[a-hj-z])[a-z]|[Aa]n [B-DF-HJ-NP-TV-Z][a-z])[A-Za-z]* (?:is|are|has|holds|says?|can)\b`)

// TestArticles: the comment of a type begins with the right article.
func TestArticles(t *testing.T) {
	if got := article.FindString("// A Info is"); got != "A Info is" {
		t.Errorf("of A Info it finds %q", got)
	}
	err := filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "words_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for n, line := range strings.Split(string(text), "\n") {
			if _, comment, ok := strings.Cut(line, "//"); ok {
				if wrong := article.FindString(comment); wrong != "" {
					t.Errorf("%s:%d: wrong article: %q", path, n+1, wrong)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
