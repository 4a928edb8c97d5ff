package segment

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
)

func newTestFile(t testing.TB, path string, o Options) *File {
	f := new(File)
	if o.Format == "" {
		o.Format = frame.Raw
	}
	f.Init(path, &o, time.Now, nil)
	t.Cleanup(f.Close)
	return f
}

func (f *File) mustAppend(t *testing.T, text string) {
	t.Helper()
	f.checkPath = true
	ends := make([]int, 2)
	if err := unix.Pipe2(ends, unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(ends[0])
	defer syscalls.Close(ends[1])
	if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Write(ends[1], []byte(text)); n < len(text) || err != nil {
		t.Fatalf("write %d bytes into a pipe: %d, %v", len(text), n, err)
	}
	var from pipe.Source
	from.Attach(ends[0])
	peek := pipe.NewPeek(&from, new(pipe.Buffers), new(pipe.RefusedCalls))
	defer peek.Close()
	for left := int64(len(text)); left > 0; {
		n, err := f.Take(left, &peek)
		if n == 0 || err != nil {
			t.Fatalf("take() of %.40q = %d, %v", text, n, err)
		}
		left -= n
	}
}

// appendOnly makes splice(2) fail on the file, as on a file system without support for it.
func (f *File) appendOnly(t *testing.T) {
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
	f := newTestFile(t, path, Options{MaxSize: limit, Keep: 1000})
	start := time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)
	clock := start
	f.now = func() time.Time { return clock }
	foreign := (nextStamp(start, 0) + 1).Name(path) // made after the directory was listed
	logstest.WriteFile(t, path+".notes", "not a log file")
	var want strings.Builder
	for i := range 2000 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%50))
		f.mustAppend(t, line)
		want.WriteString(line)
		switch i {
		case 40:
			logstest.WriteFile(t, foreign, "foreign")
		case 1000:
			clock = clock.Add(-time.Hour)
		}
	}
	if err := os.Remove(path + ".notes"); err != nil {
		t.Fatalf("a file that isn't a rotated one is gone: %v", err)
	}
	logstest.Equal(t, "a file that was in the way", logstest.ReadFile(t, foreign), "foreign")
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	contents, names := logstest.Files(t, path)
	logstest.Equal(t, "files joined", strings.Join(contents, ""), want.String())
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
		f := newTestFile(t, path, Options{MaxSize: 100, Keep: 100})
		for i := range 7 {
			line := fmt.Sprintf("run %d line %d\n", run, i)
			f.mustAppend(t, line[:5])
			f.mustAppend(t, line[5:])
			want += line
		}
		f.mustAppend(t, "half ") // superd dies here
		want += "half "
		f.Close()
	}
	contents, names := logstest.Files(t, path)
	logstest.Equal(t, "files joined", strings.Join(contents, ""), want)
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
			old := Stamp(1).Name(path)
			logstest.WriteFile(t, old, "from a predecessor\n")
			f := newTestFile(t, path, Options{MaxSize: 10, Keep: keep})
			for i := range 20 {
				f.mustAppend(t, fmt.Sprintf("line %3d\n", i))
			}
			contents, names := logstest.Files(t, path)
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

// TestFileWithoutSplice: where splice(2) fails, output is copied, with the same result.
func TestFileWithoutSplice(t *testing.T) {
	f := newTestFile(t, filepath.Join(t.TempDir(), "web.log"), Options{MaxSize: 5000, Keep: 100})
	f.mustAppend(t, "first\n")
	f.appendOnly(t)
	f.mustAppend(t, "second\n")
	if f.splices {
		t.Error("a file that refuses splice(2) is tried again")
	}
	want := "first\nsecond\n" + strings.Repeat("more of it, and more\n", 1000)
	f.mustAppend(t, want[len("first\nsecond\n"):])
	logstest.Equal(t, "files joined", logstest.Joined(t, f.path), want)
	if !f.splices {
		t.Error("splice(2) is not tried on the next file")
	}
}

func TestMaxAge(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text} {
		t.Run(string(format), func(t *testing.T) {
			f := newTestFile(t, filepath.Join(t.TempDir(), "web.log"), Options{Format: format, MaxAge: time.Hour, Keep: 10})
			clock := time.Now()
			f.now = func() time.Time { return clock }
			add := f.mustAppend
			if format != frame.Raw {
				add = func(t *testing.T, text string) {
					if _, err := f.append([]byte(text)); err != nil {
						t.Fatal(err)
					}
				}
			}
			add(t, "one\n")
			clock = clock.Add(59 * time.Minute)
			add(t, "two\n")
			f.Close() // superd ends; its successor finds the file
			clock = clock.Add(2 * time.Minute)
			add(t, "three\n")
			if format == frame.Raw {
				clock = clock.Add(2 * time.Hour)
				add(t, "fo")
				clock = clock.Add(2 * time.Hour)
				add(t, "ur\nfive\n")
			}
			want := []string{"one\ntwo\n", "three\n"}
			if format == frame.Raw {
				want = []string{"one\ntwo\n", "three\n", "four\n", "five\n"}
			}
			contents, _ := logstest.Files(t, f.path)
			if fmt.Sprint(contents) != fmt.Sprint(want) {
				t.Errorf("files = %q, want %q", contents, want)
			}
		})
	}
}

// TestUnpackedSize: the size recorded in a compressed segment bounds what is unpacked of it.
func TestUnpackedSize(t *testing.T) {
	name := filepath.Join(t.TempDir(), "web.log.gz")
	var packed bytes.Buffer
	if err := Gzip.compress(&packed, strings.NewReader("a line\n"), 7); err != nil {
		t.Fatal(err)
	}
	logstest.WriteFile(t, name, packed.String())
	if got := logstest.Unpacked(t, name); got != "a line\n" {
		t.Errorf("unpacked: %q", got)
	}
	_, err := Segment{location: location{path: name}, Name: name, Compression: Gzip, End: 6}.Open(0)
	if want := "unpack " + name + ": its content has more than the expected 6 bytes"; err == nil || err.Error() != want {
		t.Errorf("open() = %v, want %s", err, want)
	}
}
