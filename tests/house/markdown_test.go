package house

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// An excerpt is a piece of a page: a paragraph, a code span, or the target of a link.
type excerpt struct {
	line int // first line, counted from 1
	text string
}

var (
	codeSpan = regexp.MustCompile("``([^`]|`[^`])+``|`[^`]+`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// references returns the code spans and links of a page, apart from those in fenced blocks.
func references(page string) (spans, links []excerpt) {
	for _, p := range paragraphs(page) {
		for _, at := range codeSpan.FindAllStringIndex(p.text, -1) {
			span := strings.Join(strings.Fields(strings.Trim(p.text[at[0]:at[1]], "`")), " ")
			spans = append(spans, excerpt{p.line + strings.Count(p.text[:at[0]], "\n"), span})
		}
		// A span without its text has as many lines as before.
		rest := codeSpan.ReplaceAllStringFunc(p.text, func(span string) string {
			return "`" + strings.Repeat("\n", strings.Count(span, "\n"))
		})
		for _, at := range link.FindAllStringSubmatchIndex(rest, -1) {
			links = append(links, excerpt{p.line + strings.Count(rest[:at[2]], "\n"), rest[at[2]:at[3]]})
		}
	}
	return spans, links
}

// paragraphs returns the paragraphs, headings and rows of tables of a page, each with its line.
func paragraphs(page string) (all []excerpt) {
	fenced, begun := false, false
	for i, line := range strings.Split(page, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		alone := strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#")
		switch {
		case fence || fenced || strings.TrimSpace(line) == "":
			begun = false
		case begun && !alone:
			all[len(all)-1].text += "\n" + line
		default:
			all = append(all, excerpt{i + 1, line})
			begun = !alone
		}
	}
	return all
}

var (
	heading     = regexp.MustCompile(`(?m)^#{1,6} +(.*?) *$`)
	unanchored  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	headingLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// namedAnchor is an anchor of a row of a table.
var namedAnchor = regexp.MustCompile(`<a id="([^"]+)"></a>`)

// anchors returns the anchors that GitHub gives to the headings of a page, and those that it names
// itself.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, named := range namedAnchor.FindAllStringSubmatch(page, -1) {
		all[named[1]] = true
	}
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		m := heading.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if fenced || m == nil {
			continue
		}
		text := strings.ToLower(headingLink.ReplaceAllString(m[1], "$1"))
		base := strings.ReplaceAll(unanchored.ReplaceAllString(text, ""), " ", "-")
		anchor := base
		for n := 1; all[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", base, n)
		}
		all[anchor] = true
	}
	return all
}

// checkLink returns what is wrong with a link of the page at path, "" if it is right.
func checkLink(tree fs.FS, path, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := path
	if file != "" {
		to = filepath.Join(filepath.Dir(path), file)
	}
	if _, err := fs.Stat(tree, to); err != nil {
		return "there is no file " + to
	}
	if anchor == "" {
		return ""
	}
	page, err := fs.ReadFile(tree, to)
	if err != nil {
		return err.Error()
	}
	if !anchors(string(page))[anchor] {
		return fmt.Sprintf("%s has no heading #%s", to, anchor)
	}
	return ""
}

// eachFile calls f with the path from the root of each file and directory of the tree, apart from
// .git. Tests of other packages may remove files at the same time.
func eachFile(t *testing.T, tree fs.FS, f func(path string, entry fs.DirEntry)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == ".":
			return nil
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		}
		f(path, entry)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readFile returns the content of a file; nothing if it has just been removed.
func readFile(t *testing.T, tree fs.FS, path string) string {
	t.Helper()
	text, err := fs.ReadFile(tree, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestPages checks that the links of each page have a target, and that the files and Go identifiers
// in its code spans exist.
func TestPages(t *testing.T) {
	tree := os.DirFS(root)
	code := indexCode(t, tree)
	eachFile(t, tree, func(path string, _ fs.DirEntry) {
		if filepath.Ext(path) != ".md" || strings.Contains(path, "testdata/") {
			return
		}
		spans, links := references(readFile(t, tree, path))
		for _, l := range links {
			if wrong := checkLink(tree, path, l.text); wrong != "" {
				t.Errorf("%s:%d: link %s: %s", path, l.line, l.text, wrong)
			}
		}
		for _, s := range spans {
			if wrong := code.check(s.text); wrong != "" {
				t.Errorf("%s:%d: `%s`: %s", path, s.line, s.text, wrong)
			}
		}
	})
}

// TestAllIsLinked checks that a reader finds each page and each picture of docs by links of others.
func TestAllIsLinked(t *testing.T) {
	tree := os.DirFS(root)
	linked := map[string]bool{}
	var all []string
	eachFile(t, tree, func(path string, entry fs.DirEntry) {
		if strings.HasPrefix(path, "docs/") && !entry.IsDir() && filepath.Ext(path) != ".cast" {
			all = append(all, path)
		}
		if filepath.Ext(path) != ".md" || strings.Contains(path, "testdata/") {
			return
		}
		_, links := references(readFile(t, tree, path))
		for _, l := range links {
			file, _, _ := strings.Cut(l.text, "#")
			if to := filepath.Join(filepath.Dir(path), file); to != path {
				linked[to] = true
			}
		}
	})
	for _, path := range all {
		if !linked[path] {
			t.Errorf("no page links to %s", path)
		}
	}
}

// pageInCode finds a page that a file names, with its anchor.
var pageInCode = regexp.MustCompile(`\bdocs/[\w/-]+\.md(?:#[\w-]+)?`)

// TestPagesInCode checks that the pages named in Go files, scripts and units exist.
func TestPagesInCode(t *testing.T) {
	tree := os.DirFS(root)
	eachFile(t, tree, func(path string, _ fs.DirEntry) {
		if !slices.Contains([]string{".go", ".s", ".sh", ".toml", ".service"}, filepath.Ext(path)) {
			return
		}
		for _, page := range pageInCode.FindAllString(readFile(t, tree, path), -1) {
			if wrong := checkLink(tree, "README.md", page); wrong != "" {
				t.Errorf("%s: %s: %s", path, page, wrong)
			}
		}
	})
}

// TestReferences shows what TestPages finds, and what it ignores.
func TestReferences(t *testing.T) {
	code := codeIndex{
		packages: map[string]bool{"loop": true},
		names:    map[string]bool{"Loop": true, "spawnQueue": true},
		members:  map[string]bool{"loop.Loop": true, "Loop.Post": true},
		imports:  map[string]bool{"iter": true},
		files:    map[string]bool{"loop/loop.go": true, "loop.go": true, "loop": true},
		top:      map[string]bool{"loop": true},
	}
	for span, ok := range map[string]bool{
		"loop.Loop": true, "Loop.Post": true, "loop.Loop.Post": true, "spawnQueue": true, "loop.go": true,
		"loop/loop.go": true, "loop/*.go": true, "iter.Pull": true, "loop/N": true, "KillMode=process": true, "web.log": true,
		"POST /v1/scale": true, "stop_timeout": true, "[superd]": true, "loop.Post()": false,
		"loop.Gone": false, "Loop.Gone": false, "loop.Loop.Gone": false, "settleQueue": false, "GoneType": false,
		"gone.go": false, "loop/gone.go": false, "loop/*.toml": false,
	} {
		if wrong := code.check(span); (wrong == "") != ok {
			t.Errorf("check(%q) = %q, want that it is found: %v", span, wrong, ok)
		}
	}

	page := "# A `b`, c\n## Twice\n## Twice\n```\n`Gone` [x](gone.md)\n```\nsee `a\n  b`, `Loop` and\n[it](loop.md#a)\n"
	spans, links := references(page)
	if want := []excerpt{{1, "b"}, {7, "a b"}, {8, "Loop"}}; !slices.Equal(spans, want) {
		t.Errorf("code spans %v, want %v", spans, want)
	}
	if want := []excerpt{{9, "loop.md#a"}}; !slices.Equal(links, want) {
		t.Errorf("links %v, want %v", links, want)
	}
	for _, anchor := range []string{"a-b-c", "twice", "twice-1"} {
		if !anchors(page)[anchor] {
			t.Errorf("anchors %v, want %s among them", anchors(page), anchor)
		}
	}
}
