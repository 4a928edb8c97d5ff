package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newTestFile(t testing.TB, o Options) *file {
	f := new(file)
	f.init(new(o.complete().setting()), time.Now, nil)
	t.Cleanup(f.close)
	return f
}

func (f *file) mustAppend(t *testing.T, text string) {
	t.Helper()
	f.checkPath = true
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer closeFD(pipe[0])
	defer closeFD(pipe[1])
	if _, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Write(pipe[1], []byte(text)); n < len(text) || err != nil {
		t.Fatalf("write %d bytes into a pipe: %d, %v", len(text), n, err)
	}
	peek := peekBuffer{
		buffers: &sync.Pool{New: func() any { return new([chunkBytes]byte) }},
		refused: new(refusedCalls), drain: &drainState{writeErrors: &noWriteErrors},
	}
	defer peek.close()
	for left := int64(len(text)); left > 0; {
		n, err := f.take(pipe[0], left, &peek)
		if n == 0 || err != nil {
			t.Fatalf("take() of %.40q = %d, %v", text, n, err)
		}
		left -= n
	}
}

// appendOnly makes splice(2) fail on the file, as on a file system without support for it.
func (f *file) appendOnly(t *testing.T) {
	t.Helper()
	if f.fd < 0 {
		return
	}
	if _, err := unix.FcntlInt(uintptr(f.fd), unix.F_SETFL, unix.O_WRONLY|unix.O_APPEND); err != nil {
		t.Fatal(err)
	}
}

// TestRotation: rotated segments are the exact output, cut at line ends, whatever the clock shows
// and whatever files exist. Source: rows 23 and 24 of the failure table.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	const limit = 1000
	f := newTestFile(t, Options{Path: path, MaxSize: limit, Keep: 1000})
	start := time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)
	clock := start
	f.now = func() time.Time { return clock }
	foreign := (nextStamp(start, 0) + 1).name(path) // made after the directory was listed
	writeFile(t, path+".notes", "not a log file")
	var want strings.Builder
	for i := range 2000 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%50))
		f.mustAppend(t, line)
		want.WriteString(line)
		switch i {
		case 40:
			writeFile(t, foreign, "foreign")
		case 1000:
			clock = clock.Add(-time.Hour)
		}
	}
	if err := os.Remove(path + ".notes"); err != nil {
		t.Fatalf("a file that isn't a rotated one is gone: %v", err)
	}
	equal(t, "a file that was in the way", readFile(t, foreign), "foreign")
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	contents, names := files(t, path)
	equal(t, "files joined", strings.Join(contents, ""), want.String())
	for i, text := range contents {
		if len(text) > limit {
			t.Errorf("%s has %d bytes, want %d at most", names[i], len(text), limit)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			t.Errorf("%s ends in mid-line", names[i])
		}
	}
	if want := 65; len(names) < want {
		t.Errorf("%d files, want %d at least", len(names), want)
	}
}

func TestRotationGoesOnAfterRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	var want string
	for run := range 10 {
		f := newTestFile(t, Options{Path: path, MaxSize: 100, Keep: 100})
		for i := range 7 {
			line := fmt.Sprintf("run %d line %d\n", run, i)
			f.mustAppend(t, line[:5])
			f.mustAppend(t, line[5:])
			want += line
		}
		f.mustAppend(t, "half ") // superd dies here
		want += "half "
		f.close()
	}
	contents, names := files(t, path)
	equal(t, "files joined", strings.Join(contents, ""), want)
	for i, text := range contents[:len(contents)-1] {
		if len(text) > 120 || !strings.HasSuffix(text, "\n") {
			t.Errorf("%s is %q, want whole lines, little more than 100 bytes", names[i], text)
		}
	}
}

func TestKeep(t *testing.T) {
	for _, keep := range []int{0, 1, 3} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			old := stamp(1).name(path)
			writeFile(t, old, "from a predecessor\n")
			f := newTestFile(t, Options{Path: path, MaxSize: 10, Keep: keep})
			for i := range 20 {
				f.mustAppend(t, fmt.Sprintf("line %3d\n", i))
			}
			contents, names := files(t, path)
			if len(names) != keep+1 || slices.Contains(names, old) {
				t.Fatalf("files = %v, want the newest and %d rotated ones", names, keep)
			}
			for i, text := range contents {
				if want := fmt.Sprintf("line %3d\n", 19-keep+i); text != want {
					t.Errorf("%s = %q, want %q", names[i], text, want)
				}
			}
		})
	}
}

// TestFileChangesUnderneath: the log file is moved, deleted or truncated. Source: row 22 of the
// failure table.
func TestFileChangesUnderneath(t *testing.T) {
	tests := []struct {
		name   string
		change func(path string) error
		want   string // content of the file at path after "three" was logged
	}{
		{"moved", func(path string) error { return os.Rename(path, path+".old") }, "three\n"},
		{"deleted", os.Remove, "three\n"},
		{"truncated", func(path string) error { return os.Truncate(path, 0) }, "three\n"},
		{"truncated in part", func(path string) error { return os.Truncate(path, 4) }, "one\nthree\n"},
		{"written by another", func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("foreign\n")
				err = errors.Join(err, f.Close())
			}
			return err
		}, "one\ntwo\nforeign\nthree\n"},
		{"replaced by a rename", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("zero\n"), 0o600), os.Rename(path+".new", path))
		}, "zero\nthree\n"},
		{"replaced", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.WriteFile(path, []byte("zero\n"), 0o600)
		}, "zero\nthree\n"},
		{"directory moved", func(path string) error {
			return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old")
		}, "three\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log", "web.log")
			r := newRig(t)
			r.shortenDelays()
			p := r.program(Options{Path: path, MaxSize: 1000, Keep: 5})
			p.log("one\n")
			p.log("two\n")
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			p.log("three\n")
			equal(t, "log", readFile(t, path), tt.want)
		})
	}
}

// TestMovedFileIsNoticedSoon: the path is checked after a moment, not for each line. So output
// right after a move goes into the moved file. A file without a name is detected at once.
func TestMovedFileIsNoticedSoon(t *testing.T) {
	r := newRig(t)
	begin := time.Now()
	var passed atomic.Int64
	r.store.now = func() time.Time { return begin.Add(time.Duration(passed.Load())) }
	path := filepath.Join(t.TempDir(), "web.log")
	p := r.program(Options{Path: path})
	p.log("one\n")
	p.rest()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(checkInterval) - 1)
	p.log("two\n")
	p.rest()
	passed.Store(int64(checkInterval))
	p.log("three\n")
	p.rest()
	equal(t, "the file that was moved", readFile(t, path+".old"), "one\ntwo\n")
	equal(t, "log", readFile(t, path), "three\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.log("four\n")
	p.rest()
	equal(t, "log", readFile(t, path), "four\n")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	passed.Store(-int64(time.Hour)) // the clock was set
	p.log("five\n")
	equal(t, "log", readFile(t, path), "five\n")
}

// TestFileWithoutSplice: where splice(2) fails, output is copied, with the same result.
func TestFileWithoutSplice(t *testing.T) {
	f := newTestFile(t, Options{Path: filepath.Join(t.TempDir(), "web.log"), MaxSize: 5000, Keep: 100})
	f.mustAppend(t, "first\n")
	f.appendOnly(t)
	f.mustAppend(t, "second\n")
	if f.splices {
		t.Error("a file that refuses splice(2) is tried again")
	}
	want := "first\nsecond\n" + strings.Repeat("more of it, and more\n", 1000)
	f.mustAppend(t, want[len("first\nsecond\n"):])
	equal(t, "files joined", joined(t, f.Path), want)
	if !f.splices {
		t.Error("splice(2) is not tried on the next file")
	}
}

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path})
	p.log("one\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if !hasOpen(t, path+".1") {
		t.Error("the file is not open after a write")
	}
	p.rig.do(p.Reopen)
	p.rig.await(p.drained(), "Reopen")
	if _, err := os.Stat(path); err == nil {
		t.Error("Reopen made a file before there was something to write")
	}
	if hasOpen(t, path+".1") {
		t.Error("Reopen left the moved file open")
	}
	p.log("two\n")
	equal(t, "the moved file", readFile(t, path+".1"), "one\n")
	equal(t, "the new file", readFile(t, path), "two\n")
}

// hasOpen reports whether this process has a descriptor of the file.
func hasOpen(t *testing.T, path string) bool {
	t.Helper()
	want, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(open, func(fd string) bool {
		info, err := os.Stat(fd)
		return err == nil && os.SameFile(info, want)
	})
}

// TestRotationFails: if a file can't be rotated, output continues in it, and superd reports that
// once.
func TestRotationFails(t *testing.T) {
	r := newRig(t)
	// Too long for the time of a segment
	path := filepath.Join(t.TempDir(), strings.Repeat("n", unix.NAME_MAX-10))
	p := r.program(Options{Path: path, MaxSize: 100, Keep: 3})
	var want strings.Builder
	for i := range 100 {
		line := fmt.Sprintf("line %d\n", i)
		p.log(line)
		want.WriteString(line)
	}
	equal(t, "log", readFile(t, path), want.String())
	if n := strings.Count(r.log.String(), "log file not as configured"); n != 1 {
		t.Errorf("the failure was logged %d times, want once:\n%s", n, r.log)
	}
}

func TestDeviceAsLogFile(t *testing.T) {
	p := newRig(t).program(Options{Path: "/dev/null", MaxSize: 10, Keep: 3})
	p.log(strings.Repeat("one\n", 100))
	if got := p.lastLine(); got != "" {
		t.Errorf("lastLine() = %q, want none: it can't be read back", got)
	}
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Error(err)
	}
}
