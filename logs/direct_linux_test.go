package logs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The program writes into the file by itself, and whoever rotates it copies and truncates.
func TestDirect(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "log", "web.log")
	p := &program{rig: r}
	r.do(func() {
		p.scope = r.loop.Root().Child()
		p.Capture = r.store.NewCapture(p.scope, "web", Options{Path: path, Format: Direct, MaxSize: 10, Drop: true})
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
	equal(t, "tail", p.tail(), "one\ntwo, which is longer\n")
	equal(t, "what is shown", p.all(), "one\ntwo, which is longer\n")

	second := start()
	hook, err := p.OpenDirect(Stdout, uint32(os.Geteuid())) // another process of the same run
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(hook)
	write(second, "three\n")
	equal(t, "tail of the second run", p.tail(), "three\n")

	shown := &syncBuffer{}
	ended := make(chan error, 1)
	go func() { ended <- p.Follow(t.Context(), 1, true, shown) }()
	r.poll("the last line", func() bool { return shown.String() == "three\n" })
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(second, "four\n")
	r.poll("what comes after it was truncated", func() bool { return shown.String() == "three\nfour\n" })
	equal(t, "file", readFile(t, path), "four\n")
	r.do(p.scope.Close)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("who follows does not end")
	}
}
