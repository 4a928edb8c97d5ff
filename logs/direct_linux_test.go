package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"superd/internal/syscalls"
	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
)

// TestDirect: the program itself writes to the file, which is rotated by copy and truncation.
func TestDirect(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "log", "web.log")
	p := &program{rig: r}
	r.do(func() {
		p.scope = r.loop.Root().Child()
		p.Collector = r.store.NewCollector(p.scope, "web", Options{Path: path, Format: frame.Direct, MaxSize: 10, Drop: true})
	})
	start := func() *os.File {
		r.do(func() { p.BeginRun("", false) })
		fd, err := p.OpenDirect(Stdout, uint32(os.Geteuid()))
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), path)
		t.Cleanup(func() { f.Close() })
		return f
	}
	write := func(f *os.File, text string) {
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	first := start()
	write(first, "one\ntwo, which is longer\n")
	if got := p.lastLine(); got != "two, which is longer" {
		t.Errorf("lastLine() = %q", got)
	}
	logstest.Equal(t, "tail", p.tail(), "one\ntwo, which is longer\n")
	logstest.Equal(t, "what is shown", p.all(), "one\ntwo, which is longer\n")

	second := start()
	hook, err := p.OpenDirect(Stdout, uint32(os.Geteuid())) // another process of the same run
	if err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(hook)
	write(second, "three\n")
	logstest.Equal(t, "tail of the second run", p.tail(), "three\n")

	shown := &syncBuffer{}
	ended := make(chan error, 1)
	go func() { ended <- p.Follow(t.Context(), 1, true, shown) }()
	r.poll("the last line", func() bool { return shown.String() == "three\n" })
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(second, "four\n")
	r.poll("what comes after it was truncated", func() bool { return shown.String() == "three\nfour\n" })
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "four\n")
	r.do(p.scope.Close)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(testTimeout):
		t.Error("who follows does not end")
	}
}

// TestDirectToAnotherPath: a program without a FIFO, and so without a drain, gets another path from
// its next run on.
func TestDirectToAnotherPath(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "a.log"), Format: frame.Direct}
	var c *Collector
	r.do(func() { c = r.store.NewCollector(r.loop.Root().Child(), "web", o) })
	run := func(text string) {
		if _, err := r.openDirect(c).WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	run("old\n")
	o.Path = filepath.Join(dir, "b.log")
	r.do(func() { c.SetOptions(o) })
	run("new\n")
	if got := follow.LastLines([]follow.Log{c.Log(Stdout)}, testTimeout)[0]; got != "new" {
		t.Errorf("LastLines() = %q", got)
	}
	if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: c.Log(Stdout)}); got != "web:new " {
		t.Errorf("what is shown: %q", got)
	}
}

// TestAnotherPathBeforeTheFIFO: a superd that adopts a run of an older definition shows the log of
// that run, even without new output.
func TestAnotherPathBeforeTheFIFO(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	logstest.WriteFile(t, filepath.Join(dir, "begun.log"), "of the run\n")
	logstest.WriteFile(t, filepath.Join(dir, "next.log"), "of somebody else\n")
	var c *Collector
	r.do(func() {
		c = r.store.NewCollector(r.loop.Root().Child(), "web", Options{Path: filepath.Join(dir, "next.log")})
		c.SetOptions(Options{Path: filepath.Join(dir, "begun.log")})
	})
	if got := follow.LastLines([]follow.Log{c.Log(Stdout)}, testTimeout)[0]; got != "of the run" {
		t.Errorf("LastLines() = %q", got)
	}
	if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: c.Log(Stdout)}); got != "web:of the run " {
		t.Errorf("what is shown: %q", got)
	}
}

// TestDirectIsReadByMany: of concurrent checks of the file's size, the last to return may not have
// the newest. A file longer than known was not truncated.
func TestDirectIsReadByMany(t *testing.T) {
	r := newRig(t)
	var c *Collector
	r.do(func() {
		c = r.store.NewCollector(r.loop.Root().Child(), "web", Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Direct})
	})
	f := r.openDirect(c)
	segs, _ := c.segments()
	written := make(chan struct{})
	var looking sync.WaitGroup
	for range 3 {
		looking.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					segs.Refresh()
				}
			}
		})
	}
	for n := range 50_000 {
		fmt.Fprintf(f, "line %d\n", n)
	}
	close(written)
	looking.Wait()
	if start := segs.At(1 << 62).Start; start != 0 {
		t.Errorf("the file begins at %d, want 0", start)
	}
}
