package filetree

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// ignores has the patterns of what is ignored. Paths are absolute.
type ignores struct {
	roots []ignoreRoot
	files map[string][]pattern // of the .gitignore in a directory; nil: there is none
}

// An ignoreRoot is one of the directories to watch, with the patterns for all below it.
type ignoreRoot struct {
	dir      string
	top      string // the outermost directory whose .gitignore counts
	own      []pattern
	standard []pattern
}

func (g *ignores) clear() { g.roots, g.files = nil, map[string][]pattern{} }

// enterRoot adds a directory to watch. The .gitignore files above it count up to the top of its
// repository, except for patterns that would ignore the directory itself.
func (g *ignores) enterRoot(dir string, own []string) {
	r := ignoreRoot{dir: dir, top: dir, own: parse(own), standard: parse(usual)}
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
		g.files[above] = slices.DeleteFunc(g.files[above], func(p pattern) bool {
			for on := dir; on != above; on = filepath.Dir(on) {
				if p.matches(relative(on, above), true) && !p.negated {
					return true
				}
			}
			return false
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
	g.files[dir] = parse(lines)
}

// ignored reports whether changes of the path do not count, for any of the directories that it is
// in. watch.ignore decides before .gitignore files, of which the innermost decides first.
func (g *ignores) ignored(path string, isDir bool) bool {
	for _, r := range g.roots {
		if below(path, r.dir) && path != r.dir && !g.ignoredIn(&r, path, isDir) {
			return false
		}
	}
	return true
}

func (g *ignores) ignoredIn(r *ignoreRoot, path string, isDir bool) bool {
	if result := match(r.own, relative(path, r.dir), isDir); result != undecided {
		return result == ignored
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if result := match(g.files[dir], relative(path, dir), isDir); result != undecided {
			return result == ignored
		}
		if dir == r.top || dir == "/" {
			break
		}
	}
	return match(r.standard, relative(path, r.dir), isDir) == ignored
}

// relative returns a path below dir without it.
func relative(path, dir string) string { return strings.TrimPrefix(path[len(dir):], "/") }

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
