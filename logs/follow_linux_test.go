package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
)

func TestTail(t *testing.T) {
	big := strings.Repeat("x", 3*pipe.ChunkBytes)
	tests := []struct {
		name  string
		files []string // oldest first, the last is the newest
		lines int
		want  string
	}{
		{"nothing there", nil, 10, ""},
		{"no lines", []string{"one\ntwo\n"}, 0, ""},
		{"the last line", []string{"one\ntwo\n"}, 1, "two\n"},
		{"all lines", []string{"one\ntwo\n"}, 2, "one\ntwo\n"},
		{"more than there are", []string{"one\ntwo\n"}, 10, "one\ntwo\n"},
		{"all that exists", []string{"zero\n", "one\ntwo\n"}, -1, "zero\none\ntwo\n"},
		{"a partial line counts", []string{"one\ntwo\nthr"}, 2, "two\nthr"},
		{"nothing but a partial line", []string{"o"}, 1, "o"},
		{"nothing but a newline", []string{"\n"}, 1, "\n"},
		{"empty lines count", []string{"one\n\n\n"}, 2, "\n\n"},
		{"across files", []string{"one\n", "two\nthree\n", "four\n"}, 3, "two\nthree\nfour\n"},
		{"across an empty file", []string{"one\n", "", "two\n", ""}, 2, "one\ntwo\n"},
		{"a line cut by rotation is one", []string{"one\ntw", "o, this is\nthree\n"}, 2, "two, this is\nthree\n"},
		{"a cut at a file's end", []string{"one\n", "two\n"}, 1, "two\n"},
		{"a long line", []string{"one\n" + big + "\n", "two\n"}, 2, big + "\ntwo\n"},
		{"lines at the edge of a block", []string{big + "\n" + big[:pipe.ChunkBytes-1] + "\n"}, 1, big[:pipe.ChunkBytes-1] + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log", "web.log")
			if len(tt.files) > 0 {
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for i, text := range tt.files {
				name := path
				if i < len(tt.files)-1 {
					name = segment.Stamp(i + 1).Name(path)
				}
				logstest.WriteFile(t, name, text)
			}
			p := newRig(t).program(Options{Path: path, Keep: 10})
			var got bytes.Buffer
			if err := p.Follow(t.Context(), tt.lines, false, &got); err != nil {
				t.Fatal(err)
			}
			logstest.Equal(t, "before the collector has opened the file", got.String(), tt.want)

			p.log("new\n")
			got.Reset()
			lines := tt.lines
			if lines > 0 && !strings.HasSuffix(tt.want, "\n") {
				lines-- // new continues the partial line
			}
			if lines >= 0 {
				lines++
			}
			if err := p.Follow(t.Context(), lines, false, &got); err != nil {
				t.Fatal(err)
			}
			logstest.Equal(t, "after it has written", got.String(), tt.want+"new\n")
		})
	}
}

// A reader is a running follower.
type reader struct {
	syncBuffer
	*program
	cancel context.CancelFunc
	err    chan error
	gate   chan struct{} // closed: Write goes on
	came   chan struct{} // Write was called
	wrote  chan struct{}
}

func (r *reader) Write(p []byte) (int, error) {
	signal(r.came)
	<-r.gate
	n, err := r.syncBuffer.Write(p)
	signal(r.wrote)
	return n, err
}

func (p *program) follow(lines int) *reader {
	r := p.followStopped(lines)
	close(r.gate)
	return r
}

// followStopped starts a follower that does not read before its gate is closed.
func (p *program) followStopped(lines int) *reader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{
		program: p, cancel: cancel, err: make(chan error, 1),
		gate: make(chan struct{}), came: make(chan struct{}, 1), wrote: make(chan struct{}, 1),
	}
	go func() { r.err <- p.Follow(ctx, lines, true, r) }()
	p.rig.Cleanup(cancel)
	return r
}

// expect waits until all of want was shown.
func (r *reader) expect(want string) {
	r.rig.Helper()
	for r.Len() < len(want) {
		r.rig.await(r.wrote, fmt.Sprintf("byte %d of %d", r.Len(), len(want)))
	}
	logstest.Equal(r.rig, "followed", r.String(), want)
}

func (r *reader) end() error {
	r.rig.Helper()
	select {
	case err := <-r.err:
		return err
	case <-time.After(testTimeout):
		r.rig.Fatal("Follow doesn't end")
		return nil
	}
}

func (r *reader) Len() int { return r.syncBuffer.Len() }

func (r *reader) String() string { return r.syncBuffer.String() }

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "yet", "web.log")
	p := newRig(t).program(Options{Path: path})
	f := p.follow(10)
	p.log("one\n")
	f.expect("one\n")
	p.log("tw")
	f.expect("one\ntw")
	p.log("o\n")
	f.expect("one\ntwo\n")
	f.cancel()
	if err := f.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("Follow() = %v, want context.Canceled", err)
	}
	second := p.follow(1)
	second.expect("two\n")
	p.log("three\n")
	second.expect("two\nthree\n")
	p.rig.do(p.scope.Close)
	if err := second.end(); err != nil {
		t.Errorf("Follow() of a closed collector = %v, want its end", err)
	}
	if n := len(p.shared.watching()); n > 0 {
		t.Errorf("%d watchers are left", n)
	}
}

// TestFollowThroughRotation: a follower that starts at any time and reads fast enough gets every
// byte once, in spite of rotations.
func TestFollowThroughRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 2000, Keep: 10000})
	var want strings.Builder
	var readers []*reader
	for i := range 3000 {
		if i%500 == 0 {
			readers = append(readers, p.follow(-1))
		}
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%70))
		p.print(line)
		want.WriteString(line)
	}
	p.rig.await(p.drained(), "the lines")
	for _, r := range readers {
		r.expect(want.String())
		r.cancel()
		_ = r.end()
	}
	logstest.Equal(t, "files joined", logstest.Joined(t, path), want.String())
}

// TestFollowTooSlow: a follower that stops reading delays nothing, and gets a report of what it
// missed. Source: row 27 of the failure table.
func TestFollowTooSlow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 1000, Keep: 2})
	p.log("line first\n")
	f := p.followStopped(-1)
	p.rig.await(f.came, "the first line")
	var want strings.Builder
	want.WriteString("line first\n")
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		p.print(line)
		want.WriteString(line)
	}
	p.rig.await(p.drained(), "a program whose reader has stopped")
	close(f.gate)
	for !strings.HasSuffix(f.String(), "line 999\n") {
		p.rig.await(f.wrote, "the last line")
	}
	got := f.String()
	before, rest, ok := strings.Cut(got, "superd: ")
	missing, after, ok2 := strings.Cut(rest, " bytes were removed by rotation before they could be shown\n")
	n, err := strconv.Atoi(missing)
	if !ok || !ok2 || err != nil {
		t.Fatalf("nothing is shown as missing: %.300q", got)
	}
	if !strings.HasPrefix(want.String(), before) || !strings.HasSuffix(want.String(), after) {
		t.Errorf("shown is %q, missing bytes, %q; want beginning and end of what was logged", before, after)
	}
	if len(before) < 900 {
		t.Errorf("only %d bytes are shown before what is missing, want the whole file that was open", len(before))
	}
	if got := len(before) + n + len(after); got != want.Len() {
		t.Errorf("shown and missing are %d bytes, want %d", got, want.Len())
	}
	remaining := logstest.Joined(t, path)
	if after != remaining {
		t.Errorf("%d bytes are shown after what is missing, want the %d that exist", len(after), len(remaining))
	}
}

func TestFollowFileChangedUnderneath(t *testing.T) {
	tests := []struct {
		name   string
		change func(path string) error
	}{
		{"moved", func(path string) error { return os.Rename(path, path+".old") }},
		{"deleted", os.Remove},
		{"truncated", func(path string) error { return os.Truncate(path, 0) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			p := newRig(t).program(Options{Path: path, MaxSize: 100, Keep: 10})
			f := p.follow(-1)
			p.log("one\n")
			f.expect("one\n")
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			p.log("two, longer than the first\n")
			f.expect("one\ntwo, longer than the first\n")
			p.log("three\n")
			f.expect("one\ntwo, longer than the first\nthree\n")
		})
	}
}

// TestTailAcrossRemovedFile: a missing segment is skipped, backward and forward.
func TestTailAcrossRemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 12, Keep: 10})
	p.log("one\ntwo\n")
	p.log("three\nfour\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	p.log("five\n")
	const missing = "superd: 11 bytes were removed by rotation before they could be shown\n"
	for _, tt := range []struct {
		lines int
		want  string
	}{{-1, "one\ntwo\n" + missing + "five\n"}, {1, "five\n"}, {2, "two\n" + missing + "five\n"}, {9, "one\ntwo\n" + missing + "five\n"}} {
		var got bytes.Buffer
		if err := p.Follow(t.Context(), tt.lines, false, &got); err != nil {
			t.Fatal(err)
		}
		logstest.Equal(t, fmt.Sprintf("last %d lines", tt.lines), got.String(), tt.want)
	}
}

func TestFollowToAnotherPath(t *testing.T) {
	dir := t.TempDir()
	p := newRig(t).program(Options{Path: filepath.Join(dir, "a.log"), MaxSize: 20, Keep: 10})
	f := p.follow(-1)
	p.log("one\n")
	f.expect("one\n")
	logstest.WriteFile(t, filepath.Join(dir, "b.log"), "was there\n")
	p.print("two\n")
	p.rig.do(func() { p.SetOptions(Options{Path: filepath.Join(dir, "b.log"), MaxSize: 20, Keep: 10}) })
	p.log("three\nfour\nfive\nsix\n")
	f.expect("one\ntwo\nthree\nfour\nfive\nsix\n")
}

func TestNotify(t *testing.T) {
	p := newRig(t).program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	first, second := make(chan string, 100), make(chan string, 100)
	cancel := p.Notify(func() { first <- p.lastLine() })
	defer p.Notify(func() { second <- p.lastLine() })()
	p.log("one\n")
	cancel()
	p.log("two\n")
	close(first)
	close(second)
	var got [2][]string
	for line := range first {
		got[0] = append(got[0], line)
	}
	for line := range second {
		got[1] = append(got[1], line)
	}
	if want := "[[one] [one two]]"; fmt.Sprint(got) != want {
		t.Errorf("notified with %v, want %v", got, want)
	}
}

func TestFollowersOfAQuietProgramSleep(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log")})
	f := p.follow(1)
	p.log("one\n")
	f.expect("one\n")
	turns := make(chan uint64)
	r.do(func() {
		before := r.loop.Turns()
		r.loop.Root().After(50*time.Millisecond, func() { turns <- r.loop.Turns() - before })
	})
	if n := <-turns; n > 3 {
		t.Errorf("%d turns of the loop with a follower and nothing to show", n)
	}
}

// TestFollowFromOlderFiles: segments rotated before the collector was made have negative positions.
func TestFollowFromOlderFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, segment.Stamp(1).Name(path), "one\n")
	logstest.WriteFile(t, path, "two\n")
	p := newRig(t).program(Options{Path: path, Keep: 10})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got bytes.Buffer
	err := p.Follow(ctx, -1, true, writerFunc(func(b []byte) (int, error) {
		if got.Write(b); got.String() == "one\ntwo\n" {
			cancel()
		}
		return len(b), nil
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v after %q", err, &got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
