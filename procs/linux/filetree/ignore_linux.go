package filetree

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"golang.org/x/sys/unix"
)

const (
	ignoreFile    = ".gitignore"
	maxIgnoreFile = 1 << 20 // bytes that are read of such a file
)

// usual are the patterns of what no program is restarted for, unless watch.ignore has the opposite:
// data of version control, installed libraries, caches, and temporary files of editors.
var usual = []string{
	".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__", "*.py[co]",
	".pytest_cache", ".mypy_cache", ".ruff_cache", ".idea", ".DS_Store",
	"*~", ".*.sw[a-z]", "4913", ".#*", "#*#", "___jb_tmp___", "___jb_old___",
}

// ignores has the patterns of what is ignored. Paths are absolute, and so are the directories that
// patterns are relative to.
type ignores struct {
	roots []ignoreRoot
	files map[string][]gitignore.Pattern // of the .gitignore in a directory; nil: there is none
}

// An ignoreRoot is one of the directories to watch, with the patterns for all below it.
type ignoreRoot struct {
	dir      string
	top      string // the outermost directory whose .gitignore counts
	own      []gitignore.Pattern
	standard []gitignore.Pattern
}

func (g *ignores) clear() { g.roots, g.files = nil, map[string][]gitignore.Pattern{} }

// enterRoot adds a directory to watch. The .gitignore files above it count up to the top of its
// repository, except for patterns that would ignore the directory itself.
func (g *ignores) enterRoot(dir string, own []string) {
	r := ignoreRoot{dir: dir, top: dir, own: parse(dir, own), standard: parse(dir, usual)}
	for above := dir; ; above = filepath.Dir(above) {
		if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
			r.top = above
			break
		}
		if above == "/" {
			break
		}
	}
	for above := dir; above != r.top; {
		above = filepath.Dir(above)
		g.readFile(above)
		g.files[above] = slices.DeleteFunc(slices.Clone(g.files[above]), func(p gitignore.Pattern) bool {
			return p.Match(components(dir), true) == gitignore.Exclude
		})
	}
	g.roots = append(g.roots, r)
}

// readFile reads the .gitignore of a directory, if there is one. It belongs to whoever may write
// the directory: only a regular file is read, and not without limit.
func (g *ignores) readFile(dir string) {
	delete(g.files, dir)
	f, err := os.OpenFile(filepath.Join(dir, ignoreFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	var lines []string
	for scanner := bufio.NewScanner(io.LimitReader(f, maxIgnoreFile)); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	g.files[dir] = parse(dir, lines)
}

// parse returns the patterns of lines of a .gitignore in dir.
func parse(dir string, lines []string) (all []gitignore.Pattern) {
	domain := components(dir)
	for _, line := range lines {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			all = append(all, gitignore.ParsePattern(line, domain))
		}
	}
	return all
}

// components returns the names in an absolute path; none for the root.
func components(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(strings.TrimPrefix(path, "/"), "/")
}

// match returns what the last of the patterns that matches says.
func match(patterns []gitignore.Pattern, path []string, isDir bool) gitignore.MatchResult {
	for _, p := range slices.Backward(patterns) {
		if r := p.Match(path, isDir); r != gitignore.NoMatch {
			return r
		}
	}
	return gitignore.NoMatch
}

// ignored reports whether changes of the path do not count, for any of the directories that it is
// in. watch.ignore decides before .gitignore files, of which the innermost decides first.
func (g *ignores) ignored(path string, isDir bool) bool {
	names := components(path)
	for _, r := range g.roots {
		if below(path, r.dir) && path != r.dir && !g.ignoredIn(&r, path, names, isDir) {
			return false
		}
	}
	return true
}

func (g *ignores) ignoredIn(r *ignoreRoot, path string, names []string, isDir bool) bool {
	if result := match(r.own, names, isDir); result != gitignore.NoMatch {
		return result == gitignore.Exclude
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if result := match(g.files[dir], names, isDir); result != gitignore.NoMatch {
			return result == gitignore.Exclude
		}
		if dir == r.top || dir == "/" {
			break
		}
	}
	return match(r.standard, names, isDir) == gitignore.Exclude
}

// ignored reports whether changes of the path do not count.
func (t *tree) ignored(path string, isDir bool) bool {
	return t.excluded(path) || t.ignore.ignored(path, isDir)
}

// excluded reports whether superd itself writes the path.
func (t *tree) excluded(path string) bool {
	for _, dir := range t.spec.ExcludeDirs {
		if below(path, dir) {
			return true
		}
	}
	for _, log := range t.spec.ExcludeLogs {
		if path == log || strings.HasPrefix(path, log+".") {
			return true
		}
	}
	return false
}
