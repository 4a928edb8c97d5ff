package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/logs/logstest"
	"superd/logs/segment"
)

// fillFiles logs text that is rotated often, and returns it.
func fillFiles(p *program, lines int) string {
	p.rig.Helper()
	var all strings.Builder
	for i := range lines {
		fmt.Fprintf(&all, "line %d of what is written\n", i)
	}
	p.log(all.String())
	return all.String()
}

// all returns the program's stored output.
func (p *program) all() string {
	p.rig.Helper()
	var shown bytes.Buffer
	if err := p.Follow(p.rig.Context(), -1, false, &shown); err != nil {
		p.rig.Fatal(err)
	}
	return shown.String()
}

// archived waits until the archive has nothing to do.
func (r *rig) archived() {
	r.Helper()
	r.poll("rotated files to be taken care of", func() bool {
		return r.store.archive.Idle()
	})
}

func TestCompression(t *testing.T) {
	for _, c := range []segment.Compression{segment.Gzip, segment.Zstd} {
		t.Run(string(c), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			r := newRig(t)
			o := Options{Path: path, MaxSize: 5000, Keep: 1000, Compression: c}
			p := r.program(o)
			want := fillFiles(p, 2000)
			r.archived()
			contents, names := logstest.Files(t, path)
			logstest.Equal(t, "files joined", strings.Join(contents, ""), want)
			for _, name := range names[:len(names)-1] {
				if !strings.HasSuffix(name, c.Suffix()) {
					t.Errorf("%s is not compressed", name)
				}
			}
			logstest.Equal(t, "what is shown", p.all(), want)
			r.do(p.scope.Close)
			r.waitForStore()

			q := r.program(o) // a successor
			logstest.Equal(t, "what is shown by one who finds the files", q.all(), want)
			if n := len(r.store.archive.Logs()); n != 1 {
				t.Errorf("the archive knows %d files, want that of the one program that is left", n)
			}
			var last bytes.Buffer
			if err := q.Follow(t.Context(), 300, false, &last); err != nil {
				t.Fatal(err)
			}
			logstest.Equal(t, "the last lines", last.String(), strings.Join(strings.SplitAfter(want, "\n")[1700:], ""))
		})
	}
}

// TestArchiveKeepsItsThread: the archive uses the same thread for all jobs, and ends it with the
// store.
func TestArchiveKeepsItsThread(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	p := r.program(Options{Path: filepath.Join(dir, "web.log"), MaxSize: 20, Keep: 1000, Compression: segment.Gzip})
	others := lowPriorityThreads(t) // of earlier tests, as they end
	// fill logs text, and waits until the archive has compressed more files.
	compressed := 0
	fill := func() {
		fillFiles(p, 10)
		r.poll("more files to be compressed", func() bool {
			files, _ := filepath.Glob(filepath.Join(dir, "*"+segment.Gzip.Suffix()))
			more := len(files) > compressed && r.store.archive.Idle()
			if more {
				compressed = len(files)
			}
			return more
		})
	}
	fill()
	before := slices.DeleteFunc(lowPriorityThreads(t), func(id string) bool { return slices.Contains(others, id) })
	fill()
	after := lowPriorityThreads(t)
	after = slices.DeleteFunc(after, func(id string) bool { return !slices.Contains(before, id) })
	if len(after) == 0 {
		t.Errorf("none of the threads %v is left", before)
	}
	r.do(p.scope.Close)
	r.waitForStore()
	r.poll("the thread to end", func() bool {
		return !slices.ContainsFunc(lowPriorityThreads(t), func(id string) bool {
			// Go keeps the first thread, if it was that one
			return slices.Contains(after, id) && id != strconv.Itoa(os.Getpid())
		})
	})
}

// lowPriorityThreads returns the threads of lowest priority.
func lowPriorityThreads(t *testing.T) (ids []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range all {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		// getpriority(2): the kernel's own form
		if priority, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && priority == 20-19 {
			ids = append(ids, thread.Name())
		}
	}
	return ids
}

// TestNoSpaceToUnpack: a reader reports a segment that it can't unpack, as there is no directory
// for that, and skips it.
func TestNoSpaceToUnpack(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "web.log")
	o := Options{Path: path, MaxSize: 20, Keep: 1000, Compression: segment.Gzip}
	p := r.program(o)
	for i := range 3 {
		p.log(fmt.Sprintf("line %d\n", i)) // two in a segment
	}
	r.archived()
	o.MinFree = 1 << 60
	reader := r.reader(o)
	t.Setenv("TMPDIR", "/nowhere")
	for range 2 {
		var shown bytes.Buffer
		if err := reader.Follow(t.Context(), -1, false, &shown); err != nil {
			t.Fatal(err)
		}
		if got := shown.String(); !strings.HasPrefix(got, "superd: 14 bytes can't be shown: unpack ") || !strings.HasSuffix(got, "\nline 2\n") {
			t.Errorf("shown: %q", got)
		}
	}

	// Then the last line is in the segment that can't be unpacked
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	var last bytes.Buffer
	if err := r.reader(o).Follow(t.Context(), 1, false, &last); err != nil || !strings.HasPrefix(last.String(), "superd: 14 bytes can't be shown: unpack ") {
		t.Errorf("the last line: %q, %v", last.String(), err)
	}
}

// TestKilledDuringCompression: files of a predecessor that was killed while it compressed are
// removed or completed.
func TestKilledDuringCompression(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	plain, packed := segment.Stamp(1).Name(path), segment.Stamp(2).Name(path)
	logstest.WriteFile(t, plain, "one\n")
	logstest.WriteFile(t, plain+".gz", "not in whole")
	logstest.WriteFile(t, packed+".zst.tmp", "not in whole")
	logstest.WriteFile(t, path+".notes.tmp", "somebody else's")
	logstest.WriteFile(t, packed, "two\n")
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 10, Keep: 10, Compression: segment.Zstd})
	p.log("three\n")
	p.log("four, which is more\n")
	r.archived()
	logstest.Equal(t, "what is shown", p.all(), "one\ntwo\nthree\nfour, which is more\n")
	remaining, err := filepath.Glob(path + ".*")
	if err != nil || len(remaining) != 4 {
		t.Errorf("files = %v (%v), want three rotated ones and the notes", remaining, err)
	}
	for _, name := range remaining {
		if !strings.HasSuffix(name, "Z.zst") && !strings.HasSuffix(name, ".notes.tmp") {
			t.Errorf("%s is there", name)
		}
	}
}

func TestMaxTotal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, MaxSize: 1000, Keep: 1000, MaxTotal: 5000})
	want := fillFiles(p, 1000)
	contents, _ := logstest.Files(t, path)
	remaining := strings.Join(contents, "")
	if len(remaining) > 5000 || len(remaining) < 3500 || !strings.HasSuffix(want, remaining) {
		t.Errorf("%d bytes remain in %d files, want the newest of 5000 at most", len(remaining), len(contents))
	}
}

// TestMaxTotalOfAll: beyond the total of all programs, the oldest segment is removed, whichever
// program has it.
func TestMaxTotalOfAll(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t)
	r.store.SetMaxTotal(20_000)
	quiet := r.program(Options{Path: filepath.Join(dir, "quiet.log"), MaxSize: 1000, Keep: 1000})
	fillFiles(quiet, 300)
	busy := r.program(Options{Path: filepath.Join(dir, "busy.log"), MaxSize: 1000, Keep: 1000})
	for range 10 {
		fillFiles(busy, 1000)
		r.archived()
	}
	total := int64(0)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
	}
	if total > 20_000 || total < 15_000 {
		t.Errorf("%d bytes are there, want 20,000 at most and little less", total)
	}
	if _, names := logstest.Files(t, quiet.Path()); len(names) != 1 {
		t.Errorf("of who has been quiet for long %v is there, want the newest file only", names)
	}
}
