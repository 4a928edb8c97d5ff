package logs

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/segment"
)

// TestOneWriterOfAPath: a write for a removed program may still hang; the next owner of the file
// waits for it.
func TestOneWriterOfAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	var before segment.File
	before.Init(path, &segment.Options{Format: frame.Raw}, time.Now, &r.store.archive)
	if err := before.Ready(); err != nil {
		t.Fatal(err)
	}
	p := r.program(Options{Path: path})
	p.print("new\n")
	r.poll("a word of what it waits for", func() bool { return strings.Contains(r.log.String(), "an earlier write to it hangs") })
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "")
	before.Release()
	r.await(p.drained(), "output to be written")
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "new\n")

	other := r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")})
	other.log("other\n")
	r.do(p.scope.Close) // its program is removed; another one takes its path
	r.do(func() { other.SetOptions(Options{Path: path}) })
	other.log("newer\n")
	logstest.Equal(t, "file", logstest.ReadFile(t, path), "new\nnewer\n")
}
