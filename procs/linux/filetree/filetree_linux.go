// Package filetree watches files, and directories with all that is below them, by inotify.
//
// A [Watch] has a goroutine of its own, which owns all of its state: it may block in a file system
// that hangs. fsnotify watches single directories. This package adds the tree: directories that
// are made later, paths that are missing so far, what .gitignore files exclude, and what to do when
// the kernel has no more watches to give.
package filetree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"superd/procs/host"
)

const (
	// batchTime collects changes before they are reported. It is longer than the life of temporary
	// files that editors replace others by.
	batchTime = 20 * time.Millisecond
	// retryTime is the pause between tries while a limit of the system is reached.
	retryTime = 30 * time.Second
	// touchTime is the greatest age of a time of modification that was just set.
	touchTime = 5 * time.Second
	// maxDirs bounds the directories of a watch: a program of another user may make any number.
	maxDirs = 100_000
	// maxNamed bounds how many changed files are remembered until they are reported.
	maxNamed = 64
)

// A Watch watches files until it is closed.
type Watch struct{ stop chan struct{} }

// Begin watches files. report is called on a goroutine of the watch: with changes, and when the
// reason has changed why not all of them are noticed.
func Begin(spec host.FileWatch, report func(host.FileReport)) *Watch {
	w := &Watch{stop: make(chan struct{})}
	go func() {
		t := &tree{spec: spec, report: report, stop: w.stop}
		t.run()
	}()
	return w
}

// Close ends the watch and does not wait for that.
func (w *Watch) Close() { close(w.stop) }

// A tree is the state of a watch.
type tree struct {
	spec    host.FileWatch
	report  func(host.FileReport)
	stop    chan struct{}
	inotify *fsnotify.Watcher
	ignore  ignores
	dirs    map[string]bool // watched directories whose files count
	// Watched directories of which only some names count: paths that are files, links, or missing
	anchors map[string]map[string]bool

	problem  string   // of the walk that is under way, or the last one
	reported string   // the last problem that was reported
	changed  []string // paths that are not reported yet
	full     bool     // no further directory can be watched
}

// run watches until the end. Without inotify it tries again later.
func (t *tree) run() {
	for {
		again := t.serve()
		if again == nil {
			return
		}
		t.problem = again.Error()
		t.flush()
		select {
		case <-t.stop:
			return
		case <-time.After(retryTime):
		}
	}
}

// serve watches with one descriptor of inotify. It returns an error to try again after, or nil at
// the end.
func (t *tree) serve() error {
	inotify, err := fsnotify.NewWatcher()
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("this user has no inotify instance left: raise fs.inotify.max_user_instances (%s now), as by sysctl -w fs.inotify.max_user_instances=1024",
			limit("max_user_instances"))
	case err != nil:
		return fmt.Errorf("make inotify instance: %w", err)
	}
	defer inotify.Close()
	t.inotify = inotify
	t.scan(false)
	t.flush()
	var batch, retry <-chan time.Time
	for {
		if len(t.changed) > 0 && batch == nil {
			batch = time.After(batchTime)
		}
		if t.full && retry == nil {
			retry = time.After(retryTime)
		}
		select {
		case <-t.stop:
			return nil
		case e, ok := <-inotify.Events:
			if !ok {
				return errors.New("inotify ended")
			}
			t.handle(e)
		case err, ok := <-inotify.Errors:
			if !ok {
				return errors.New("inotify ended")
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("read inotify: %w", err)
			}
			t.change(t.spec.Paths[0]) // it is not known what
			t.scan(false)
		case <-batch:
			batch = nil
			t.flush()
		case <-retry:
			retry = nil
			t.scan(false)
			t.flush()
		}
	}
}

// handle handles an event.
func (t *tree) handle(e fsnotify.Event) {
	dir := filepath.Dir(e.Name)
	gone := e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)
	if e.Op == fsnotify.Chmod && !touched(e.Name) {
		return
	}
	switch {
	case t.anchors[dir][e.Name], gone && (t.anchors[e.Name] != nil || t.isRoot(e.Name)):
		// One of the paths, or a directory that leads to it
		if gone || e.Has(fsnotify.Create) {
			t.drop(e.Name)
			t.scan(true)
		}
		if t.isRoot(e.Name) {
			t.change(e.Name)
		}
		return
	case !t.dirs[dir]:
		return
	}
	if gone {
		if t.dirs[e.Name] && e.Has(fsnotify.Rename) {
			t.drop(e.Name) // its subdirectories keep their watches, and have other names now
		}
		delete(t.dirs, e.Name)
		if !t.ignored(e.Name, false) {
			t.change(e.Name)
		}
		return
	}
	info, err := os.Lstat(e.Name)
	isDir := err == nil && info.IsDir()
	switch {
	case t.ignored(e.Name, isDir):
	case isDir && e.Has(fsnotify.Create):
		t.walk(e.Name, true)
		t.flushProblem()
	case isDir: // its mode has changed
	default:
		t.change(e.Name)
		if filepath.Base(e.Name) == ignoreFile {
			t.scan(false)
		}
	}
}

// touched reports whether the file was given a new time of modification, as touch does. Other
// changes of what inotify calls attributes are no changes of the file.
func touched(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && !info.IsDir() && time.Since(info.ModTime()).Abs() < touchTime
}

// change remembers a change until it is reported.
func (t *tree) change(path string) {
	if len(t.changed) < maxNamed {
		for _, known := range t.changed {
			if known == path {
				return
			}
		}
		t.changed = append(t.changed, path)
	}
}

// flush reports what is new. It names a file that exists rather than one that was there for a
// moment.
func (t *tree) flush() {
	if len(t.changed) == 0 {
		t.flushProblem()
		return
	}
	r := host.FileReport{Changed: t.changed[0], Problem: t.problem}
	var found []string
	for _, path := range t.changed {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
		}
	}
	if len(found) > 0 {
		r.Changed = found[0]
	}
	r.More = len(found) > 1 || len(found) == 0 && len(t.changed) > 1
	t.changed, t.reported = nil, t.problem
	t.report(r)
}

// flushProblem reports a problem that is new or over.
func (t *tree) flushProblem() {
	if t.problem != t.reported {
		t.reported = t.problem
		t.report(host.FileReport{Problem: t.problem})
	}
}

// setProblem records why not all changes are noticed, unless another reason is known.
func (t *tree) setProblem(text string) {
	if t.problem == "" {
		t.problem = text
	}
}

// isRoot reports whether the path is one of those to watch.
func (t *tree) isRoot(path string) bool {
	for _, root := range t.spec.Paths {
		if root == path {
			return true
		}
	}
	return false
}

// below reports whether path is dir or below it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// limit returns the value of a limit of inotify, as text.
func limit(name string) string {
	text, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
