package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of 512 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the space in dir and returns the file that does.
func fill(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "filler")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	return path
}

// A syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// await waits until the journal has the values of want.
func await(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := values(t, dir)
		if fmt.Sprint(got) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it says %.300q, want %.300q", got, want)
		}
	}
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t)
	var log syncBuffer
	j, _, err := Open(dir, boot, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(time.Minute)
	mustPut(t, j, "before", 1)
	filler := fill(t, dir)

	// There is space until the current page is full.
	value := strings.Repeat("x", 900)
	want := map[string]string{"before": "1"}
	for i := 0; ; i++ {
		key := fmt.Sprint("put/", i)
		if err := j.Put(key, value); errors.Is(err, unix.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		want[key] = fmt.Sprintf("%q", value)
	}
	equal(t, "after a Put that failed", values(t, dir), want)

	for round := range 3 {
		for i := range 20 {
			j.Queue(fmt.Sprint("queue/", i), strings.Repeat("y", 900)+fmt.Sprint(round))
		}
		flush(j)
	}
	if got := strings.Count(log.String(), "journal not written"); got != 1 {
		t.Errorf("it is logged %d times, want once:\n%s", got, log.String())
	}
	if state, err := Read(dir, boot); err != nil || state.Damaged != 0 {
		t.Errorf("on a full disk: %v, %v", state, err)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		want[fmt.Sprint("queue/", i)] = fmt.Sprintf("%q", strings.Repeat("y", 900)+"2")
	}
	await(t, dir, want) // written without a request
	mustPut(t, j, "after", 1)
	want["after"] = "1"
	equal(t, "at the end", values(t, dir), want)
}

func TestOpenOnAFullDiskGoesOnWithTheOldFile(t *testing.T) {
	for _, torn := range []string{"", "0000", "a record without its end"} {
		t.Run("torn "+torn, func(t *testing.T) {
			dir := smallDisk(t)
			j, _ := mustOpen(t, dir)
			mustPut(t, j, "web", strings.Repeat("x", 5000))
			j.Close(time.Minute)
			tail := []byte(torn)
			if len(torn) > 10 {
				line, err := appendRecord(nil, "torn", 1)
				if err != nil {
					t.Fatal(err)
				}
				tail = line[:len(line)-1]
			}
			path := filepath.Join(dir, fileName)
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, append(content, tail...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			filler := fill(t, dir)

			const now = "another boot"
			var log syncBuffer
			j, state, err := Open(dir, now, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close(time.Minute)
			if !strings.Contains(log.String(), "old file is continued") || len(state.Values) != 1 || !state.OtherBoot {
				t.Errorf("%d values, other boot: %v, log: %s", len(state.Values), state.OtherBoot, log.String())
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			mustPut(t, j, "db", 1)
			state, err = Read(dir, now)
			if err != nil {
				t.Fatal(err)
			}
			if len(state.Values) != 2 || string(state.Values["db"]) != "1" || state.OtherBoot {
				t.Errorf("gone on with: %d values, other boot: %v", len(state.Values), state.OtherBoot)
			}
		})
	}
}

// TestAJournalLeavesRoom writes without a pause, many times what the disk has space for.
func TestAJournalLeavesRoom(t *testing.T) {
	dir := smallDisk(t)
	j, _ := mustOpen(t, dir)
	defer j.Close(time.Minute)
	filler := strings.Repeat("x", 1000)
	for i := range 3000 {
		mustPut(t, j, fmt.Sprint("key", i%20), filler)
	}
}

func TestAJournalThatCannotBeCompactedGrowsOn(t *testing.T) {
	dir := smallDisk(t)
	var log syncBuffer
	j, _, err := Open(dir, boot, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close(time.Minute)
	value := strings.Repeat("x", 10_000)
	// 30 keys takeQueue more than half of the disk, so that a second file does not fit.
	want := map[string]string{}
	for i := range 45 {
		key := fmt.Sprint("key", i%30)
		mustPut(t, j, key, value+fmt.Sprint(i))
		want[key] = fmt.Sprintf("%q", value+fmt.Sprint(i))
	}
	j.Queue("last", 1)
	want["last"] = "1"
	flush(j)
	for !strings.Contains(log.String(), "not compacted") { // attempted when idle
		time.Sleep(10 * time.Millisecond)
	}
	equal(t, "without room for a new file", values(t, dir), want)
	if got := strings.Count(log.String(), "not compacted"); got != 1 {
		t.Errorf("it is logged %d times, want once:\n%s", got, log.String())
	}
	if _, err := os.Stat(filepath.Join(dir, newName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the new file is left behind: %v", err)
	}
}
