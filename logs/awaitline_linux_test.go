package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/segment"
	"superd/loop"
)

// awaitLine waits for a line from now on; the channel receives it.
func (p *program) awaitLine(scope *loop.Scope, pattern string) <-chan string {
	found := make(chan string, 10)
	p.rig.do(func() {
		p.AwaitLine(scope, Stdout, regexp.MustCompile(pattern), nil, func(line string, err error) {
			if err != nil {
				line = "error: " + err.Error()
			}
			found <- line
		})
	})
	return found
}

func (p *program) beginRun(id string) { p.rig.do(func() { p.BeginRun(id, false) }) }

func (p *program) child() (scope *loop.Scope) {
	p.rig.do(func() { scope = p.scope.Child() })
	return scope
}

// expectLine waits for the line.
func (p *program) expectLine(found <-chan string, want string) {
	p.rig.Helper()
	done := make(chan struct{})
	got := ""
	go func() { got = <-found; close(done) }()
	p.rig.await(done, "the line")
	if got != want {
		p.rig.Errorf("found %.200q, want %.200q", got, want)
	}
}

func TestAwaitLine(t *testing.T) {
	huge := strings.Repeat("x", 16<<10)
	tests := []struct {
		name, pattern, before, after, want string // written before and after the call
	}{
		{"a line that comes", "^listening on", "", "starting\nlistening on :80\nmore\n", "listening on :80"},
		{"a line that came", "^listening on", "starting\nlistening on :80\n", "", "listening on :80"},
		{"a line that came in part", "^listening on :80$", "starting\nlisten", "ing on :80\n", "listening on :80"},
		{"the first of several", "ready", "", "ready 1\nready 2\n", "ready 1"},
		{"a carriage return", "ready$", "", "ready\r\n", "ready"},
		{"after a huge line", "^ready", huge + huge, "ready\nready\n", "ready"},
		{"the beginning of a huge line", "^y", "", "y" + huge + huge + "\n", "y" + huge[:frame.MaxShown-1]},
		{"not the end of a huge line", "z|ready", "", huge + "z\nready\n", "ready"},
		{"an empty line", "^$", "", "x\n\n", ""},
		{"bytes that are no text", `\x00`, "", "\xff\x00\n", "\xff\x00"},
	}
	for _, format := range []frame.Format{frame.Raw, frame.Text, frame.JSON} {
		for _, tt := range tests {
			if format == frame.JSON && strings.Contains(tt.after, "\xff") {
				continue // JSON holds valid text
			}
			t.Run(fmt.Sprint(format, " ", tt.name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "web.log")
				p := newRig(t).program(Options{Path: path, Format: format})
				p.beginRun("1")
				p.print(tt.before)
				if format == frame.Raw {
					p.rig.await(p.drained(), "output to be written")
				}
				found := p.awaitLine(p.child(), tt.pattern)
				p.print(tt.after)
				p.expectLine(found, tt.want)
			})
		}
	}
}

// TestAwaitLineOfThisRun: lines of another writer, a predecessor or an earlier run do not match.
func TestAwaitLineOfThisRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, "ready 0\n")
	p := newRig(t).program(Options{Path: path})
	p.beginRun("1")
	found := p.awaitLine(p.child(), "ready")
	p.log("not yet\n")
	p.print("ready 1\n")
	p.expectLine(found, "ready 1")

	p.print("ready 1 again\n")
	p.beginRun("2") // while the output may still be in the FIFO
	// The draining goroutine begins the new run at its next turn; a program's exec takes longer.
	p.rig.await(p.drained(), "the beginning of the run to be known")
	found = p.awaitLine(p.child(), "ready")
	p.print("ready 2\n")
	p.expectLine(found, "ready 2")
}

// TestAwaitLineAdopted: without BeginRun, as in a run that a predecessor has begun, lines match.
func TestAwaitLineAdopted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, "ready 0\n")
	p := newRig(t).program(Options{Path: path})
	found := p.awaitLine(p.child(), "ready")
	p.print("ready 1\n")
	p.expectLine(found, "ready 1")
}

// TestAwaitLineFromRunStart: a line that a predecessor wrote to the log and did not read matches,
// however often the file was rotated since. No line of the run before matches.
func TestAwaitLineFromRunStart(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text, frame.JSON} {
		for _, rotated := range []segment.Compression{"none", "", segment.Gzip, segment.Zstd} {
			t.Run(fmt.Sprint(format, " rotated ", rotated), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "web.log")
				o := Options{Path: path, Format: format, Keep: 100}
				if rotated != "none" {
					o.MaxSize, o.Compression = 40, rotated
				}
				r := newRig(t)
				begins := make(chan segment.Cursor, 10)
				r.store.BeforeFirstOutput(func(at RunStart, saved func()) {
					if data, _ := os.ReadFile(path); at.Run == "2" && bytes.Contains(data, []byte("ready 2")) {
						t.Error("the start is reported when the line is in the log already")
					}
					begins <- at.At
					saved()
				})
				p := r.program(o)
				run := func(id string) segment.Cursor {
					r.do(func() { p.BeginRun(id, true) })
					r.await(p.drained(), "the beginning of the run to be known")
					lines := fmt.Sprintf("starting %s\nready %s\n", id, id)
					p.log(lines)
					select {
					case at := <-begins:
						return at
					case <-time.After(testTimeout):
						t.Fatal("no start is reported")
					}
					panic("unreachable")
				}
				run("1")
				begin := run("2")
				if rotated != "none" {
					p.log(strings.Repeat("more and more\n", 20))
				}
				r.do(p.scope.Close)
				r.waitForStore() // and for the archive

				next := newRig(t)
				q := next.program(o)
				next.do(func() { q.ResumeRun("2") })
				expect := func(from *segment.Cursor, pattern, want string) {
					found := make(chan string, 1)
					next.do(func() {
						q.AwaitLine(q.scope.Child(), Stdout, regexp.MustCompile(pattern), from, func(line string, err error) { found <- fmt.Sprint(line, err) })
					})
					q.expectLine(found, want+"<nil>")
				}
				expect(&begin, "ready", "ready 2")
			})
		}
	}
}

// TestRunStartIsSavedFirst: output waits until its start is saved, but not for long.
func TestRunStartIsSavedFirst(t *testing.T) {
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprint("drop ", drop), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			logstest.WriteFile(t, path, "before\n")
			r := newRig(t)
			r.store.stallTimeout = testTimeout
			calls := make(chan func(), 10)
			r.store.BeforeFirstOutput(func(at RunStart, saved func()) {
				if at.Run != "1" || at.At.Offset != int64(len("before\n")) {
					t.Errorf("run %q begins at %v", at.Run, at.At)
				}
				calls <- saved
			})
			p := r.program(Options{Path: path, Drop: drop})
			r.do(func() { p.BeginRun("1", true) })
			p.print("ready\n")
			var saved func()
			select {
			case saved = <-calls:
			case <-time.After(testTimeout):
				t.Fatal("no start is reported")
			}
			if text := logstest.ReadFile(t, path); text != "before\n" {
				t.Errorf("the file has %q before the start is saved", text)
			}
			saved()
			saved() // may come late, and twice
			r.await(p.drained(), "output to be written")
			logstest.Equal(t, "file", logstest.ReadFile(t, path), "before\nready\n")
		})
	}
}

// TestRunStartIsNotSaved: if the start is not saved, output is written after a while.
func TestRunStartIsNotSaved(t *testing.T) {
	r := newRig(t)
	r.store.stallTimeout = time.Millisecond
	called := make(chan struct{}, 1)
	r.store.BeforeFirstOutput(func(RunStart, func()) { called <- struct{}{} })
	path := filepath.Join(t.TempDir(), "web.log")
	p := r.program(Options{Path: path})
	r.do(func() { p.BeginRun("1", true) })
	p.log("ready\n")
	<-called
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "ready\n")
}

// TestRunStartWhileClosing: a wait for the save does not delay the close of a collector.
func TestRunStartWhileClosing(t *testing.T) {
	r := newRig(t)
	r.store.stallTimeout = 10 * testTimeout
	called := make(chan struct{}, 1)
	r.store.BeforeFirstOutput(func(RunStart, func()) { called <- struct{}{} })
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	r.do(func() { p.BeginRun("1", true) })
	p.print("ready\n")
	<-called
	r.do(p.scope.Close)
	r.waitForStore()
}

// TestAwaitLineAcrossRotation reads segments during frequent rotations. A segment removed before it
// was read yields no line.
func TestAwaitLineAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 1000, Keep: 1})
	p.beginRun("1")
	p.log(strings.Repeat("0123456789\n", 1000))
	found := p.awaitLine(p.child(), "ready|removed by rotation")
	p.log(strings.Repeat("0123456789\n", 1000))
	p.log("ready\n")
	p.expectLine(found, "ready")
}

// TestAwaitLineEnds: after the end of its scope, or of the collector, no line matches and all
// resources are released.
func TestAwaitLineEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path})
	p.beginRun("1")
	scope := p.child()
	found := p.awaitLine(scope, "ready")
	watchers := func() int {
		p.Collector.shared.Lock()
		defer p.Collector.shared.Unlock()
		return len(p.shared.watching())
	}
	p.rig.poll("the follower", func() bool { return watchers() == 1 })
	p.rig.do(scope.Close)
	p.rig.poll("the follower's end", func() bool { return watchers() == 0 })
	p.log("ready\n")

	second := p.awaitLine(p.child(), "never")
	p.rig.poll("the follower", func() bool { return watchers() == 1 })
	p.rig.do(p.scope.Close)
	p.rig.poll("the follower's end", func() bool { return watchers() == 0 })
	p.rig.do(func() {})
	if len(found)+len(second) != 0 {
		t.Errorf("found %d lines", len(found)+len(second))
	}
}

// TestAwaitLineUnreadable: after a read error, it retries and continues from the same place.
func TestAwaitLineUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	p := newRig(t).program(Options{Path: filepath.Join(path, "web.log")})
	logstest.WriteFile(t, path, "not a directory")
	p.beginRun("1")
	failed, found := make(chan struct{}, 1), make(chan struct{})
	var first error
	p.rig.do(func() {
		p.AwaitLine(p.scope.Child(), Stdout, regexp.MustCompile("ready"), nil, func(line string, err error) {
			if err == nil {
				if line != "ready" {
					t.Errorf("found %q", line)
				}
				close(found)
				return
			}
			if first == nil {
				first = err
			}
			signal(failed)
		})
	})
	p.rig.await(failed, "an error")
	if want := "await line of web: open " + p.Path() + ": not a directory"; first.Error() != want {
		t.Errorf("error %q, want %q", first, want)
	}
	<-failed
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.print("not yet\nready\n")
	p.rig.await(found, "the line")
}

// TestLineOfEitherFile: a run with two log files has a start in each, reported before any of its
// output is written. From there, a line matches in either.
func TestLineOfEitherFile(t *testing.T) {
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "web.err.log"), Split: true}
	logstest.WriteFile(t, o.Path, "ready of an earlier one\n")
	logstest.WriteFile(t, o.StderrPath, "ready of an earlier one\n")
	r := newRig(t)
	begins := make(chan RunStart, streams)
	r.store.BeforeFirstOutput(func(at RunStart, saved func()) { begins <- at; saved() })
	p := r.twoStreams(o)
	r.do(func() { p.BeginRun("2", true) })
	p.awaitDrained()
	p.print("ready out\n")
	p.awaitDrained()
	p.printError("ready err\n")
	p.awaitDrained()
	p.print("more\n")
	p.printError("more\n")
	p.awaitDrained()
	if n := len(begins); n != int(streams) {
		t.Fatalf("%d starts are reported, want %d", n, streams)
	}
	r.do(p.scope.Close)
	r.waitForStore()

	next := newRig(t)
	q := next.twoStreams(o)
	next.do(func() { q.ResumeRun("2") })
	for which, want := range []string{Stdout: "ready out", Stderr: "ready err"} {
		at := <-begins
		if at.Stream != Stream(which) || at.Run != "2" {
			t.Errorf("the start of run %s in the log of stream %d is reported, want that of run 2 in %d", at.Run, at.Stream, which)
		}
		found := make(chan string, 1)
		next.do(func() {
			q.AwaitLine(q.scope.Child(), at.Stream, regexp.MustCompile("ready"), &at.At, func(line string, err error) { found <- fmt.Sprint(line, err) })
		})
		q.expectLine(found, want+"<nil>")
	}
}
