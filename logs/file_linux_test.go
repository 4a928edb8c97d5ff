package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/logstest"
	"superd/logs/segment"
)

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
			logstest.Equal(t, "log", logstest.ReadFile(t, path), tt.want)
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
	passed.Store(int64(segment.CheckInterval) - 1)
	p.log("two\n")
	p.rest()
	passed.Store(int64(segment.CheckInterval))
	p.log("three\n")
	p.rest()
	logstest.Equal(t, "the file that was moved", logstest.ReadFile(t, path+".old"), "one\ntwo\n")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "three\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.log("four\n")
	p.rest()
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "four\n")
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	passed.Store(-int64(time.Hour)) // the clock was set
	p.log("five\n")
	logstest.Equal(t, "log", logstest.ReadFile(t, path), "five\n")
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
	logstest.Equal(t, "the moved file", logstest.ReadFile(t, path+".1"), "one\n")
	logstest.Equal(t, "the new file", logstest.ReadFile(t, path), "two\n")
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
	logstest.Equal(t, "log", logstest.ReadFile(t, path), want.String())
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
