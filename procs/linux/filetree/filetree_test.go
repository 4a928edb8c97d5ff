package filetree

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/procs/host"
)

// A bed is a directory that is watched.
type bed struct {
	t       *testing.T
	dir     string
	reports chan host.FileReport
	watch   *Watch
	markers string // a directory of what sync makes
	marked  int
	pause   sync.Mutex
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func newBed(t *testing.T) *bed {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bed{t: t, dir: dir, reports: make(chan host.FileReport, 10_000)}
}

// begin watches paths below the directory, and waits until it does.
func (b *bed) begin(spec host.FileWatch) {
	b.t.Helper()
	if len(spec.Paths) == 0 {
		spec.Paths = []string{b.dir}
	}
	b.markers = b.t.TempDir()
	spec.Paths = append(spec.Paths, b.markers)
	b.watch = Begin(spec, func(r host.FileReport) {
		b.pause.Lock()
		defer b.pause.Unlock()
		b.reports <- r
	})
	b.t.Cleanup(b.watch.Close)
	b.sync()
}

// sync waits until all that has happened so far is reported, and returns the reports.
func (b *bed) sync() (all []host.FileReport) {
	b.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		time.Sleep(2 * batchTime) // the marker is to be reported by itself
		b.marked++
		marker := filepath.Join(b.markers, fmt.Sprint(b.marked))
		b.must(os.Mkdir(marker, 0o755))
		b.must(os.Remove(marker))
		for waiting := true; waiting; {
			select {
			case r := <-b.reports:
				if r.Changed == marker {
					return all
				}
				if filepath.Dir(r.Changed) != b.markers {
					all = append(all, r)
				}
			case <-time.After(100 * time.Millisecond):
				waiting = false
			}
		}
	}
	b.t.Fatal("no report of a marker")
	return nil
}

// changes returns the changed files that are reported for what do does, without the directory.
func (b *bed) changes(do func()) (names []string) {
	b.t.Helper()
	do()
	for _, r := range b.sync() {
		if r.Changed == "" {
			continue
		}
		name, err := filepath.Rel(b.dir, r.Changed)
		if err != nil {
			b.t.Fatal(err)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) write(name string, text ...string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(strings.Join(text, "")+"\n"), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// TestChanges has what counts as a change, and what does not.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write(".gitignore", "*.log\n/dist/\n!keep.log\n")
	b.write("sub/.gitignore", "secret\n")
	b.write("sub/deep/a")
	b.write("app.py")
	b.write("dist/out")
	b.write("node_modules/lib/index.js")
	b.write("state/pid")
	b.write("run.log")
	old := time.Now().Add(-time.Hour)
	b.must(os.Chtimes(b.path("app.py"), old, old))
	b.begin(host.FileWatch{Ignore: []string{"state/"}, ExcludeDirs: []string{b.path("own")}, ExcludeLogs: []string{b.path("web.txt")}})
	rename := func(from, to string) func() { return func() { b.must(os.Rename(b.path(from), b.path(to))) } }
	tests := []struct {
		name string
		do   func()
		want string // the file that is reported; "": none
	}{
		{"a change of the mode", func() { b.must(os.Chmod(b.path("app.py"), 0o755)) }, ""},
		{"touch", func() { b.must(os.Chtimes(b.path("app.py"), time.Now(), time.Now())) }, "app.py"},
		{"a file is written", func() { b.write("app.py") }, "app.py"},
		{"a file below is written", func() { b.write("sub/deep/a") }, "sub/deep/a"},
		{"a file is removed", func() { b.must(os.Remove(b.path("sub/deep/a"))) }, "sub/deep/a"},
		{"a new directory without files", func() { b.must(os.Mkdir(b.path("new"), 0o755)) }, ""},
		{"a file in the new directory", func() { b.write("new/f") }, "new/f"},
		{"a new tree", func() { b.write("x/y/z/f") }, "x/y/z/f"},
		{"a file in the new tree", func() { b.write("x/y/z/g") }, "x/y/z/g"},
		{"a directory is renamed", rename("x", "w"), "w/y/z/f"},
		{"a new directory in the renamed one", func() { b.write("w/y/new/f") }, "w/y/new/f"},
		{"a file in that", func() { b.write("w/y/new/f") }, "w/y/new/f"},
		{"ignored by .gitignore", func() { b.write("run.log"); b.write("dist/new"); b.write("sub/secret") }, ""},
		{"the opposite in .gitignore", func() { b.write("keep.log") }, "keep.log"},
		{"what is usually ignored", func() { b.write("node_modules/lib/index.js"); b.write(".git/HEAD"); b.write("a.py~") }, ""},
		{"watch.ignore", func() { b.write("state/pid") }, ""},
		{"what superd writes", func() { b.write("own/superd.log"); b.write("web.txt"); b.write("web.txt.20261127T051500") }, ""},
		{"a save by rename, as of sed -i", func() { b.write("sedAbC123"); rename("sedAbC123", "app.py")() }, "app.py"},
		{"a save as of vim", func() {
			b.write("4913")
			b.must(os.Remove(b.path("4913")))
			rename("app.py", "app.py~")()
			b.write("app.py")
			b.must(os.Remove(b.path("app.py~")))
		}, "app.py"},
		{"a file is ignored no longer", func() {
			b.write(".gitignore", "*.log\n")
			b.sync()
			b.write("dist/out")
		}, "dist/out"},
		{"a pipe as .gitignore", func() {
			b.must(os.Mkdir(b.path("pipe"), 0o755))
			b.must(unix.Mkfifo(b.path("pipe/.gitignore"), 0o644))
			b.write("pipe/f")
		}, "pipe/.gitignore"},
		{"a file beside that", func() { b.write("pipe/f") }, "pipe/f"},
	}
	for _, tt := range tests {
		got := b.changes(tt.do)
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: %v has changed, want nothing", tt.name, got)
		case tt.want != "" && !slices.Contains(got, tt.want):
			t.Errorf("%s: %v has changed, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPaths has paths that are files or links, and paths that come and go.
func TestPaths(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("etc/app.conf")
	b.write("etc/other")
	b.write("v1/f")
	b.write("v2/f")
	b.must(os.Symlink("v1", b.path("current")))
	b.begin(host.FileWatch{Paths: []string{b.path("etc/app.conf"), b.path("current"), b.path("later/src")}})
	has := func(what string, do func(), want ...string) {
		t.Helper()
		if got := b.changes(do); !slices.Equal(got, want) {
			t.Errorf("%s: %v has changed, want %v", what, got, want)
		}
	}
	has("a file beside", func() { b.write("etc/other") })
	has("the file", func() { b.write("etc/app.conf") }, "etc/app.conf")
	has("the file by rename", func() {
		b.write("etc/new")
		b.must(os.Rename(b.path("etc/new"), b.path("etc/app.conf")))
	}, "etc/app.conf")
	has("the file again", func() { b.write("etc/app.conf") }, "etc/app.conf")
	has("a file behind the link", func() { b.write("v1/f") }, "current/f")
	has("the link", func() {
		b.must(os.Symlink("v2", b.path("next")))
		b.must(os.Rename(b.path("next"), b.path("current")))
	}, "current/f")
	has("a file behind the old link", func() { b.write("v1/f") })
	has("a file behind the new link", func() { b.write("v2/f") }, "current/f")
	has("a part of the missing path", func() { b.must(os.Mkdir(b.path("later"), 0o755)) })
	has("the missing path", func() { b.must(os.Mkdir(b.path("later/src"), 0o755)) }, "later/src")
	has("a file in it", func() { b.write("later/src/f") }, "later/src/f")
	if got := b.changes(func() { b.must(os.RemoveAll(b.path("later"))) }); len(got) == 0 {
		t.Error("the path is removed: nothing has changed")
	}
	if got := b.changes(func() { b.write("later/src/f") }); len(got) == 0 {
		t.Error("the path is back: nothing has changed")
	}
	has("a file in it again", func() { b.write("later/src/f") }, "later/src/f")
}

// TestMissingPath: a path that does not exist is a problem, until it does.
func TestMissingPath(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	reports := make(chan host.FileReport, 100)
	w := Begin(host.FileWatch{Paths: []string{b.path("src")}}, func(r host.FileReport) { reports <- r })
	defer w.Close()
	next := func() host.FileReport {
		t.Helper()
		select {
		case r := <-reports:
			return r
		case <-time.After(patience):
			t.Fatal("no report")
			return host.FileReport{}
		}
	}
	if r := next(); !strings.Contains(r.Problem, "src does not exist: make it, or correct watch.paths") {
		t.Errorf("first report: %+v, want a problem", r)
	}
	b.write("src/f")
	if r := next(); r.Problem != "" {
		t.Errorf("after it was made: %+v, want no problem", r)
	}
}

// TestRepository: the .gitignore files above a path count, except where they concern the path
// itself.
func TestRepository(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write(".gitignore", "*.log\nbuild\n")
	b.write("repo/.git/HEAD")
	b.write("repo/.gitignore", "*.tmp\nbuild\n")
	b.write("repo/build/f")
	b.begin(host.FileWatch{Paths: []string{b.path("repo/build")}})
	if got := b.changes(func() { b.write("repo/build/a.tmp"); b.write("repo/build/a.log") }); !slices.Equal(got, []string{"repo/build/a.log"}) {
		t.Errorf("%v have changed, want repo/build/a.log: *.tmp is ignored by the repository", got)
	}
}

// TestBurst: many files at once lead to few reports, and those in new directories are watched
// afterwards.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.begin(host.FileWatch{})
	const dirs, files = 50, 20
	for d := range dirs {
		for f := range files {
			b.write(fmt.Sprintf("d%d/f%d", d, f))
		}
	}
	if n := len(b.sync()); n == 0 || n > dirs*files/2 {
		t.Errorf("%d reports of %d files, want few", n, dirs*files)
	}
	if got := b.changes(func() { b.write("d37/f3") }); !slices.Equal(got, []string{"d37/f3"}) {
		t.Errorf("%v has changed, want d37/f3", got)
	}
}

// TestOverflow: when the kernel has dropped events, directories that were made meanwhile are
// watched.
func TestOverflow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("a")
	b.write("b")
	b.begin(host.FileWatch{})
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	b.must(err)
	queue, err := strconv.Atoi(strings.TrimSpace(string(text)))
	b.must(err)
	if queue > 100_000 {
		t.Skip("the queue of the kernel is too long to be filled")
	}
	b.pause.Lock() // its goroutine waits in the next report
	var files [2]*os.File
	for i, name := range []string{"a", "b"} {
		files[i], err = os.OpenFile(b.path(name), os.O_WRONLY|os.O_APPEND, 0)
		b.must(err)
		defer files[i].Close()
	}
	for i := range queue + 20_000 { // fsnotify has taken some of them
		_, err := files[i%2].Write([]byte("x"))
		b.must(err)
	}
	b.write("new/sub/f")
	b.pause.Unlock()
	b.sync()
	if got := b.changes(func() { b.write("new/sub/f") }); !slices.Equal(got, []string{"new/sub/f"}) {
		t.Errorf("%v has changed, want new/sub/f", got)
	}
}

// random is how many further files TestMatchesGit compares.
var random = flag.Int("gitignore.n", 40, "how many .gitignore files are made by chance")

// TestMatchesGit compares what is ignored with `git check-ignore`.
func TestMatchesGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("without git")
	}
	patterns := []string{
		"*.log", "build/", "/dist", "doc/*.txt", "doc/**/*.pdf", "**/foo", "a/**", "a/**/b", "foo/bar", `\#x`, `\!y`,
		"*", "/*\n!/src", "src/*", "[ab].c", "te?t", "x y", "trail  ", "**/logs/**", "foo*/", ".*\n!.env", "*.log\n!keep.log", "build/\n!build/f", "# a.log", "\n",
		"[!ab].c", "[^ab].c", "[a-c].c", "[", `a.lo\`, "{a,b}.c", `\{a}`, "a**b", `\**`, "**", "/**", "**/", "***", "q/**/w", "**/z/**", "!a.log", "/", "!",
		"x/*/b.c", "logs/**/**/x", `tra\il`, "?", "a.log ", `trail\ `, "\ufeffa.log", "a.log\r", "/*\n!/x\n/x/*\n!/x/b.c", "*.c\n!/x/b.c", "a.log/",
	}
	// And lines by chance, of what means something
	chance := rand.New(rand.NewPCG(1, 2))
	parts := strings.Split("a b x foo logs dist .log .c * * ** / / / ! ? [ab] \\ # {", " ")
	for range *random {
		var text strings.Builder
		for range 1 + chance.IntN(3) {
			for range 1 + chance.IntN(6) {
				text.WriteString(parts[chance.IntN(len(parts))])
			}
			text.WriteByte('\n')
		}
		// Git takes the beginning a away first, and a**/b is **/b then, against its documentation
		if !regexp.MustCompile(`[^/*\n]\*\*+/`).MatchString(text.String()) {
			patterns = append(patterns, text.String())
		}
	}
	paths := strings.Fields("a.log x/a.log keep.log build/f x/build/f dist dist2/f x/dist doc/a.txt doc/x/a.txt doc/a.pdf doc/x/y.pdf " +
		"x/foo foo/bar x/foo2/bar a/x a/x2/b a/b #x !y src/m.go a.c x/b.c test trail logs/x q/logs/z/w foo1/g .env .config/x a/foo/logs/b/x a/c/a.log x/log/c {a} a,b a**b")
	b := newBed(t)
	for _, p := range paths {
		b.write(p)
	}
	b.write("x y")
	paths = append(paths, "x y")
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", b.dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	for _, pattern := range patterns {
		b.must(os.WriteFile(b.path(".gitignore"), []byte(pattern+"\n"), 0o644))
		check := exec.CommandContext(t.Context(), "git", "-C", b.dir, "check-ignore", "--no-index", "--stdin")
		check.Stdin = strings.NewReader(strings.Join(paths, "\n"))
		out, _ := check.Output() // it fails if none is ignored
		want := strings.Split(strings.TrimSpace(string(out)), "\n")
		var g ignores
		g.clear()
		g.enterRoot(b.dir, nil)
		g.readFile(b.dir)
		for i := range g.roots {
			g.roots[i].standard = nil
		}
		for _, path := range paths {
			ignored := false
			names := strings.Split(path, "/")
			for n := 1; n <= len(names); n++ {
				ignored = ignored || g.ignored(b.path(strings.Join(names[:n], "/")), n < len(names))
			}
			if ignored != slices.Contains(want, path) {
				t.Errorf("%q: %s is ignored: %v, by git %v", pattern, path, ignored, !ignored)
			}
		}
	}
}
