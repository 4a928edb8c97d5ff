package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/logs/frame"
)

// clear clears the log of p and returns the error.
func (p *program) clear(rotated bool) (err error) {
	p.rig.Helper()
	done := make(chan struct{})
	p.rig.do(func() {
		p.Clear(rotated, func(e error) { err = e; close(done) })
	})
	p.rig.await(done, "the clearing")
	return err
}

// contents returns the files in a directory whose names begin so, with their contents.
func contents(t *testing.T, dir, prefix string) string {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range found {
		if strings.HasPrefix(f.Name(), prefix) {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
	}
	return strings.Join(all, "|")
}

// TestClear: the file is empty, what comes is at its start, followers go on, and rotated files are
// removed only if that is requested.
func TestClear(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		r := newRig(t)
		p := r.program(Options{Path: filepath.Join(dir, "web.log"), MaxSize: 10, Keep: 3, Drop: drop})
		p.log("one 5678\n")
		p.log("two 5678\n")
		f := p.follow(-1)
		text := "one 5678\ntwo 5678\n"
		f.expect(text)
		if err := p.clear(false); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir, "web.log"); got != "|one 5678\n" {
			t.Errorf("drop %v: the files have %q, want the rotated one and an empty one", drop, got)
		}
		p.log("three\n")
		text += "three\n"
		f.expect(text)
		if err := p.clear(true); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir, "web.log"); got != "" {
			t.Errorf("drop %v: the files have %q, want one that is empty", drop, got)
		}
		p.log("four\n")
		f.expect(text + "four\n")
		if got := contents(t, dir, "web.log"); got != "four\n" {
			t.Errorf("drop %v: the files have %q", drop, got)
		}
	}
}

// TestClearWithoutFIFO: the log of a program that never ran, and of one that writes to it itself.
func TestClearWithoutFIFO(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "web.log")
	p := &program{rig: r}
	r.do(func() {
		p.scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(p.scope, "web", Options{Path: path, Format: frame.Direct})
	})
	if err := p.clear(true); err != nil {
		t.Errorf("clear a log that does not exist: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made")
	}
	f := r.openDirect(p.Collector)
	if _, err := f.WriteString("before\n"); err != nil {
		t.Fatal(err)
	}
	if err := p.clear(false); err != nil {
		t.Errorf("clear a log that the program writes to itself: %v", err)
	}
	if _, err := f.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "after\n" || err != nil {
		t.Errorf("the file has %q, %v", text, err)
	}
	if line := p.lastLine(); line != "after" {
		t.Errorf("the last line is %q", line)
	}
}

// TestClearRefused: a sink has no files, a device keeps nothing, and an error of the file system is
// returned.
func TestClearRefused(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name string
		o    Options
		want string
	}{
		{"a sink", Options{Sink: "syslog", Address: "/nonexistent/log"}, "clear log: the output goes to syslog"},
		{"a device", Options{Path: "/dev/null"}, ""},
		{"a directory", Options{Path: t.TempDir()}, "is a directory"},
	} {
		p := r.program(tt.o)
		if err := p.clear(true); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: clear = %v, want %q", tt.name, err, tt.want)
		}
		r.do(p.scope.Close)
		if err := p.clear(true); err == nil {
			t.Errorf("%s: a closed log is cleared", tt.name)
		}
	}
}
