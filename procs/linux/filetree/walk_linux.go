package filetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scan watches all directories that are to be watched, and no others. Those that are watched
// already stay so. With fresh, files in directories that are new count as changes.
func (t *tree) scan(fresh bool) {
	before, anchors := t.dirs, t.anchors
	t.dirs, t.anchors = map[string]bool{}, map[string]map[string]bool{}
	t.ignore.clear()
	t.problem, t.full = "", false
	for _, root := range t.spec.Paths {
		t.watchRoot(root, fresh, before)
	}
	for dir := range before {
		if !t.dirs[dir] && t.anchors[dir] == nil {
			t.inotify.Remove(dir)
		}
	}
	for dir := range anchors {
		if !t.dirs[dir] && t.anchors[dir] == nil {
			t.inotify.Remove(dir)
		}
	}
	t.flushProblem()
}

// watchRoot watches one of the paths.
func (t *tree) watchRoot(root string, fresh bool, before map[string]bool) {
	info, err := os.Stat(root)
	switch link, linkErr := os.Lstat(root); {
	case errors.Is(err, fs.ErrNotExist):
		if t.awaitRoot(root) {
			t.watchRoot(root, fresh, before)
			return
		}
		t.setProblem(fmt.Sprintf("%s does not exist: make it, or correct watch.paths", root))
		return
	case err != nil:
		t.setProblem(fmt.Sprintf("watch %s: %v: correct watch.paths", root, err))
		return
	case !info.IsDir(), linkErr == nil && link.Mode()&fs.ModeSymlink != 0:
		t.anchor(filepath.Dir(root), root)
		if !info.IsDir() {
			return
		}
	}
	t.ignore.enterRoot(root, t.spec.Ignore)
	t.walkUnless(root, fresh, before)
}

// awaitRoot watches for the next directory on the way to a path that does not exist. It reports
// whether the path exists after all.
func (t *tree) awaitRoot(root string) (exists bool) {
	for range 3 { // directories may appear meanwhile, also again and again
		next := root
		for {
			dir := filepath.Dir(next)
			if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == "/" {
				t.anchor(dir, next)
				break
			}
			next = dir
		}
		if _, err := os.Stat(root); err == nil {
			return true
		}
		if _, err := os.Lstat(next); err != nil {
			return false
		}
	}
	return false
}

// anchor watches a directory for one name.
func (t *tree) anchor(dir, path string) {
	if t.anchors[dir] == nil {
		if !t.dirs[dir] && !t.add(dir) {
			return
		}
		t.anchors[dir] = map[string]bool{}
	}
	t.anchors[dir][path] = true
}

// walk watches a directory and all below it that are not ignored. With fresh, the files in them
// count as changes.
func (t *tree) walk(dir string, fresh bool) { t.walkUnless(dir, fresh, nil) }

// walkUnless is walk, except that files in the directories of known do not count as changes.
func (t *tree) walkUnless(dir string, fresh bool, known map[string]bool) {
	if t.dirs[dir] && known != nil || t.excluded(dir) || !t.add(dir) {
		return
	}
	t.dirs[dir] = true
	t.ignore.readFile(dir)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.setProblem(fmt.Sprintf("%v: permit it, or add it to watch.ignore", err))
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case t.ignored(path, entry.IsDir()):
		case entry.IsDir():
			t.walkUnless(path, fresh, known)
		case fresh && !known[dir]:
			t.change(path)
		}
		if t.stopped() {
			return
		}
	}
}

// stopped reports whether the watch is closed.
func (t *tree) stopped() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// add watches one directory, and reports whether it could.
func (t *tree) add(dir string) bool {
	if t.full {
		return false
	}
	if len(t.dirs) >= maxDirs {
		t.full = true
		t.setProblem(fmt.Sprintf("there are more than %d directories: name fewer in watch.paths, or add some to watch.ignore", maxDirs))
		return false
	}
	switch err := t.inotify.Add(dir); {
	case err == nil:
		return true
	case errors.Is(err, unix.ENOSPC):
		t.full = true
		t.setProblem(fmt.Sprintf("this user has no inotify watch left, after %d directories of these files: raise fs.inotify.max_user_watches (%s now), as by sysctl -w fs.inotify.max_user_watches=524288, or add directories to watch.ignore",
			len(t.dirs), limit("max_user_watches")))
	case errors.Is(err, fs.ErrNotExist): // it is gone again
	case errors.Is(err, unix.ENOTDIR):
	default:
		t.setProblem(fmt.Sprintf("watch %s: %v: permit it, or add it to watch.ignore", dir, err))
	}
	return false
}

// drop ends the watches of a directory and of all below it.
func (t *tree) drop(dir string) {
	for path := range t.dirs {
		if below(path, dir) {
			t.inotify.Remove(path)
			delete(t.dirs, path)
		}
	}
}
