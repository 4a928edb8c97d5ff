package web

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// staticFiles returns the embedded files by name.
func staticFiles(t *testing.T) map[string]string {
	t.Helper()
	entries, err := embedded.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := fs.ReadFile(embedded, "static/"+e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

// Names and output of programs are hostile, so the pages make elements from text in no way but as
// text. What the policy of the answers (default-src 'none') forbids would do nothing, so it is not
// there either.
func TestPagesMakeNoMarkupFromText(t *testing.T) {
	forbidden := map[string][]*regexp.Regexp{
		".js": patterns(`\b(?:inner|outer)HTML\b`, `insertAdjacentHTML`, `document\.write`, `\beval\b`,
			`new Function\b`, `createContextualFragment`, `\bDOMParser\b`, `\bsrcdoc\b`, `setHTML`,
			`\bimport\s*\(`, `\bstyle["']?\s*[,:]`, `javascript:`, `set(?:Timeout|Interval)\(\s*["'\x60]`),
		".html": patterns(`\sstyle=`, `<style`, `\son[a-z]+=`, `<script(?:\s+type="module")?>`, `javascript:`),
		".svg":  patterns(`<script`, `\son[a-z]+=`, `<foreignObject`),
		".css":  patterns(`@import`, `url\(`, `expression\(`),
	}
	for name, text := range staticFiles(t) {
		for _, pattern := range forbidden[path.Ext(name)] {
			for i, line := range strings.Split(text, "\n") {
				if found := pattern.FindString(line); found != "" {
					t.Errorf("static/%s:%d has %q, which pages must not have", name, i+1, found)
				}
			}
		}
	}
}

// A missing module is a page that stays empty.
func TestPagesNameFilesThatExist(t *testing.T) {
	files := staticFiles(t)
	reached := map[string]bool{"index.html": true}
	for name, text := range files {
		var names []string
		switch path.Ext(name) {
		case ".js":
			for _, m := range regexp.MustCompile(`(?m)^(?:import|export)\b[^;]*?\bfrom\s*"([^"]+)"|^import\s*"([^"]+)"`).
				FindAllStringSubmatch(text, -1) {
				module, isHere := strings.CutPrefix(m[1]+m[2], "./")
				if !isHere {
					t.Errorf("static/%s imports %q, which is not beside it", name, m[1]+m[2])
				}
				names = append(names, module)
			}
			checkImportedNames(t, files, name, text)
		}
		for _, m := range regexp.MustCompile(`/static/([\w.-]+)`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		for _, other := range names {
			if _, exists := files[other]; !exists {
				t.Errorf("static/%s names %s, which does not exist", name, other)
			}
			reached[other] = true
		}
	}
	for name := range files {
		if !reached[name] {
			t.Errorf("no file names static/%s: remove it", name)
		}
	}
}

// checkImportedNames checks that modules export what others import of them: a browser runs none of
// them otherwise.
func checkImportedNames(t *testing.T, files map[string]string, name, text string) {
	t.Helper()
	imports := regexp.MustCompile(`(?s)import \{([^}]*)\} from "\./([^"]+)"`)
	body := imports.ReplaceAllString(text, "")
	for _, m := range imports.FindAllStringSubmatch(text, -1) {
		for wanted := range strings.SplitSeq(m[1], ",") {
			if wanted = strings.TrimSpace(wanted); wanted == "" {
				continue
			}
			exports := regexp.MustCompile(`(?m)^export (?:async )?(?:function|class|const|let) ` + wanted + `\b`)
			if !exports.MatchString(files[m[2]]) {
				t.Errorf("static/%s imports %s, which %s does not export", name, wanted, m[2])
			}
			if !regexp.MustCompile(`\b` + wanted + `\b`).MatchString(body) {
				t.Errorf("static/%s imports %s and does not use it", name, wanted)
			}
		}
	}
}

// The pages stay small enough to be read, by people and over a slow line.
func TestPagesAreSmall(t *testing.T) {
	const (
		mostBytes   = 200 << 10 // together
		mostLines   = 400       // of a file
		mostColumns = 110
	)
	total := 0
	for name, text := range staticFiles(t) {
		total += len(text)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > mostLines {
			t.Errorf("static/%s has %d lines, more than %d", name, len(lines), mostLines)
		}
		if path.Ext(name) == ".svg" {
			continue
		}
		for i, line := range lines {
			if n := len([]rune(line)); n > mostColumns {
				t.Errorf("static/%s:%d has %d columns, more than %d", name, i+1, n, mostColumns)
			}
		}
	}
	if total > mostBytes {
		t.Errorf("static has %d bytes, more than %d", total, mostBytes)
	}
}

func patterns(texts ...string) []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(texts))
	for i, text := range texts {
		all[i] = regexp.MustCompile(text)
	}
	return all
}
