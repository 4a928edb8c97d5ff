// Command columns checks that comments in Go files and prose in Markdown files end at column 100.
//
// A tab counts as four columns. What can't be wrapped is exempt: tables, headings, code blocks and
// HTML comments in Markdown, directives such as //go:build, addresses and the targets of links.
//
// Files whose names are in rewrite.txt, beside this file, are exempt until they are rewritten. The
// names have no folder, since files move. The list may only get shorter: -prune removes from it what
// keeps to the limit by now.
//
// Usage, in the folder of this module:
//
//	go run ./columns [-count] [-prune] [-dir folder]
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	limit    = 100
	tabWidth = 4
	listFile = "tools/columns/rewrite.txt"
)

func main() {
	count := flag.Bool("count", false, "only print how many lines are too long, by folder")
	prune := flag.Bool("prune", false, "remove from "+listFile+" the files that keep to the limit")
	dir := flag.String("dir", "..", "`folder` of the project")
	flag.Parse()
	if err := run(os.Stdout, *dir, *count, *prune); err != nil {
		fmt.Fprintln(os.Stderr, "columns:", err)
		os.Exit(1)
	}
}

// A longLine is a line beyond the limit.
type longLine struct{ number, columns int }

func run(w io.Writer, dir string, count, prune bool) error {
	long, err := find(dir)
	if err != nil {
		return err
	}
	if count {
		printCounts(w, long)
		return nil
	}
	listed, err := readList(dir)
	if err != nil {
		return err
	}
	if prune {
		bad := map[string]bool{}
		for file := range long {
			bad[path.Base(file)] = true
		}
		listed = slices.DeleteFunc(listed, func(name string) bool { return !bad[name] })
		return os.WriteFile(filepath.Join(dir, listFile), []byte(strings.Join(listed, "\n")+"\n"), 0o644)
	}
	bad := 0
	for _, file := range slices.Sorted(maps.Keys(long)) {
		if slices.Contains(listed, path.Base(file)) {
			continue
		}
		for _, line := range long[file] {
			fmt.Fprintf(w, "%s:%d: %d columns\n", file, line.number, line.columns)
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d lines of comments or prose are longer than %d columns", bad, limit)
	}
	return nil
}

// find returns the lines that are too long, by file, with a path below dir.
func find(dir string) (map[string][]longLine, error) {
	long := map[string][]longLine{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (entry.Name()[0] == '.' || entry.Name() == "testdata") {
			return fs.SkipDir
		}
		check := map[string]func([]byte) []longLine{".go": inGo, ".md": inMarkdown}[path.Ext(name)]
		if check == nil || !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if lines := check(text); len(lines) > 0 {
			long[name] = lines
		}
		return nil
	})
	return long, err
}

// readList returns the files that are yet to be rewritten; without a list there are none.
func readList(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, listFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(text)), nil
}

func printCounts(w io.Writer, long map[string][]longLine) {
	counts := map[string]int{}
	for file, lines := range long {
		counts[path.Dir(file)] += len(lines)
		counts["total"] += len(lines)
	}
	folders := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for _, folder := range folders {
		fmt.Fprintf(w, "%6d %s\n", counts[folder], folder)
	}
}
