package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTwoSegmentsOfAPath: while the archive works for a removed program, another one has the same
// log. Both get each change of its segments.
func TestTwoSegmentsOfAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	for i := range 2 {
		writeFile(t, stamp(time.Now().Add(time.Duration(i-60)*time.Minute).UnixMicro()).name(path), strings.Repeat("old\n", 1000))
	}
	writeFile(t, path, "new\n")
	r := newRig(t)
	before := newSegments(path, &Options{Format: Raw})
	r.store.paths.add(before)
	if err := before.list(nil); err != nil {
		t.Fatal(err)
	}
	rotated, _ := before.files()

	p := r.program(Options{Path: path, Compression: Zstd, Keep: 10})
	own, _ := p.segments()
	if own.disk != before.disk {
		t.Error("who lists the files may see both of a pair while one is compressed")
	}
	unfinished := before.segment(rotated[0]).name + Zstd.suffix() + unfinishedSuffix
	writeFile(t, unfinished, "")
	before.setCompressing(unfinished)
	if err := own.list(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("what the archive was writing: %v", err)
	}
	before.setCompressing("")
	// As for a follower of a stream without a collector
	if err := newSegments(path, &Options{Format: Raw}).list(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("a file that only the archive may check: %v", err)
	}

	if err := before.compress(rotated[0], Zstd); err != nil {
		t.Fatal(err)
	}
	equal(t, "what is shown", p.all(), strings.Repeat("old\n", 2000)+"new\n")
	if err := own.removeRotated(rotated[1]); err != nil {
		t.Fatal(err)
	}
	if _, ok := before.find(rotated[1].stamp); ok {
		t.Error("a file that was removed would come back compressed")
	}
	_, names := files(t, path)
	if len(names) != 2 || !strings.HasSuffix(names[0], Zstd.suffix()) {
		t.Errorf("files %q", names)
	}
	r.store.paths.removeUser(before)
	if _, remaining := r.store.paths.samePath(path); len(remaining) != 1 || remaining[0] != own {
		t.Errorf("%d segments are registered after one of two was removed, want the other", len(remaining))
	}
}

// TestOneWriterOfAPath: a write for a removed program may still hang; the next owner of the file
// waits for it.
func TestOneWriterOfAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	before := newSegments(path, &Options{Format: Raw})
	r.store.paths.add(before)
	before.claimWriting()
	p := r.program(Options{Path: path})
	p.print("new\n")
	r.poll("a word of what it waits for", func() bool { return strings.Contains(r.log.String(), "an earlier write to it hangs") })
	equal(t, "file", readFile(t, path), "")
	r.store.paths.endWriting(before)
	r.await(p.drained(), "output to be written")
	equal(t, "file", readFile(t, path), "new\n")

	other := r.program(Options{Path: filepath.Join(t.TempDir(), "other.log")})
	other.log("other\n")
	r.do(p.scope.Close) // its program is removed; another one takes its path
	r.do(func() { other.SetOptions(Options{Path: path}) })
	other.log("newer\n")
	equal(t, "file", readFile(t, path), "new\nnewer\n")
}
