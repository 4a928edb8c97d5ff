package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"superd/loop"
)

// await waits for a line from now on; the channel gets it.
func (p *program) awaitLine(scope *loop.Scope, pattern string) <-chan string {
	found := make(chan string, 10)
	p.rig.do(func() {
		p.AwaitLine(scope, regexp.MustCompile(pattern), func(line string, err error) {
			if err != nil {
				line = "error: " + err.Error()
			}
			found <- line
		})
	})
	return found
}

func (p *program) beginRun(id string) { p.rig.do(func() { p.BeginRun(id) }) }

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
	huge := strings.Repeat("x", maxAwaited)
	tests := []struct {
		name, pattern, before, after, want string // written before and after the call
	}{
		{"a line that comes", "^listening on", "", "starting\nlistening on :80\nmore\n", "listening on :80"},
		{"a line that came", "^listening on", "starting\nlistening on :80\n", "", "listening on :80"},
		{"a line that came in part", "^listening on :80$", "starting\nlisten", "ing on :80\n", "listening on :80"},
		{"the first of several", "ready", "", "ready 1\nready 2\n", "ready 1"},
		{"a carriage return", "ready$", "", "ready\r\n", "ready"},
		{"after a huge line", "^ready", huge + huge, "ready\nready\n", "ready"},
		{"the beginning of a huge line", "^y", "", "y" + huge + huge + "\n", "y" + huge[:maxLineBytes-1]},
		{"not the end of a huge line", "z|ready", "", huge + "z\nready\n", "ready"},
		{"an empty line", "^$", "", "x\n\n", ""},
		{"bytes that are no text", `\x00`, "", "\xff\x00\n", "\xff\x00"},
	}
	for _, format := range []Format{Raw, Text, JSON} {
		for _, tt := range tests {
			if format == JSON && strings.Contains(tt.after, "\xff") {
				continue // it holds text
			}
			t.Run(fmt.Sprint(format, " ", tt.name), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "web.log")
				p := newRig(t).program(Options{Path: path, Format: format})
				p.beginRun("1")
				p.print(tt.before)
				if format == Raw {
					p.rig.await(p.drained(), "output to be written")
				}
				found := p.awaitLine(p.child(), tt.pattern)
				p.print(tt.after)
				p.expectLine(found, tt.want)
			})
		}
	}
}

// TestAwaitLineOfThisRun does not find what was written before: by another, by an earlier superd or in an earlier run.
func TestAwaitLineOfThisRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	writeFile(t, path, "ready 0\n")
	p := newRig(t).program(Options{Path: path})
	p.beginRun("1")
	found := p.awaitLine(p.child(), "ready")
	p.log("not yet\n")
	p.print("ready 1\n")
	p.expectLine(found, "ready 1")

	p.print("ready 1 again\n")
	p.beginRun("2") // while that is in the FIFO yet, perhaps
	// The goroutine that drains sees it at its next look; a program is not executed as fast as that.
	p.rig.await(p.drained(), "the beginning of the run to be known")
	found = p.awaitLine(p.child(), "ready")
	p.print("ready 2\n")
	p.expectLine(found, "ready 2")
}

// TestAwaitLineAdopted has no BeginRun, as of a run that an earlier superd has begun.
func TestAwaitLineAdopted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	writeFile(t, path, "ready 0\n")
	p := newRig(t).program(Options{Path: path})
	found := p.awaitLine(p.child(), "ready")
	p.print("ready 1\n")
	p.expectLine(found, "ready 1")
}

// TestAwaitLineAcrossRotation reads files that are rotated all the while. What was removed before it was read is no line.
func TestAwaitLineAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 1000, Keep: 1})
	p.beginRun("1")
	p.log(strings.Repeat("0123456789\n", 1000))
	found := p.awaitLine(p.child(), "ready|rotated away")
	p.log(strings.Repeat("0123456789\n", 1000))
	p.log("ready\n")
	p.expectLine(found, "ready")
}

// TestAwaitLineEnds with its scope and with the capture: nothing is found then and nothing left.
func TestAwaitLineEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path})
	p.beginRun("1")
	scope := p.child()
	found := p.awaitLine(scope, "ready")
	watchers := func() int {
		p.Capture.mu.Lock()
		defer p.Capture.mu.Unlock()
		return len(p.watchers)
	}
	p.rig.poll("the follower", func() bool { return watchers() == 1 })
	p.rig.do(scope.Close)
	p.rig.poll("the follower's end", func() bool { return watchers() == 0 })
	p.log("ready\n")

	again := p.awaitLine(p.child(), "never")
	p.rig.poll("the follower", func() bool { return watchers() == 1 })
	p.rig.do(p.scope.Close)
	p.rig.poll("the follower's end", func() bool { return watchers() == 0 })
	p.rig.do(func() {})
	if len(found)+len(again) != 0 {
		t.Errorf("found %d lines", len(found)+len(again))
	}
}

func TestAwaitLineUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	p := newRig(t).program(Options{Path: filepath.Join(path, "web.log")})
	writeFile(t, path, "not a directory")
	p.beginRun("1")
	found := p.awaitLine(p.child(), "ready")
	p.expectLine(found, "error: await line of web: open "+path+": not a directory")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
