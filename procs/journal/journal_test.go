package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const boot = "0b2c"

// mustOpen opens the journal in dir; it is closed with the test.
func mustOpen(t testing.TB, dir string) (*Journal, *State) {
	t.Helper()
	j, state, err := Open(dir, boot, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close(time.Minute) })
	return j, state
}

func mustPut(t testing.TB, j *Journal, key string, value any) {
	t.Helper()
	if err := j.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

// flush waits until what is queued is written.
func flush(j *Journal) {
	done := make(chan struct{})
	j.Flush(func() { close(done) })
	<-done
}

// values returns what the journal in dir says, as text.
func values(t testing.TB, dir string) map[string]string {
	t.Helper()
	state, err := Read(dir, boot)
	if err != nil {
		t.Fatal(err)
	}
	return texts(state)
}

func texts(s *State) map[string]string {
	got := map[string]string{}
	for key, value := range s.Values {
		got[key] = string(value)
	}
	return got
}

func equal(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestTheLastValueOfEachKeyCounts(t *testing.T) {
	dir := t.TempDir()
	j, state := mustOpen(t, dir)
	if state.Existed || len(state.Values) > 0 {
		t.Fatalf("a new journal says %+v", state)
	}
	j.Queue("instance/web", map[string]int{"pid": 1})
	mustPut(t, j, "birth/web/1", 5)
	flush(j)
	j.Queue("instance/db", "x")
	j.Queue("instance/web", map[string]int{"pid": 2})
	j.Queue("birth/web/1", nil)
	j.Queue(`odd "key" \ é`, json.RawMessage(`{ "a" : null }`))
	j.Close(time.Minute)

	want := map[string]string{"instance/web": `{"pid":2}`, "instance/db": `"x"`, `odd "key" \ é`: `{"a":null}`}
	equal(t, "read back", values(t, dir), want)
	_, state = mustOpen(t, dir)
	equal(t, "opened again", texts(state), want)
	if !state.Existed || state.OtherBoot || state.Damaged != 0 || state.Writer.Pid != os.Getpid() {
		t.Fatalf("state = %+v", state)
	}
	equal(t, "written anew", values(t, dir), want)
}

func TestPutVoidsWhatWasQueuedBefore(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	j.io.Lock() // the writing goroutine waits
	j.Queue("a", 1)
	j.Queue("b", 1)
	put := make(chan error)
	go func() { put <- j.Put("a", 2) }()
	j.io.Unlock()
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	j.Close(time.Minute)
	equal(t, "read back", values(t, dir), map[string]string{"a": "2", "b": "1"})
}

func TestFileIsPrivateAndCompacted(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	path := filepath.Join(dir, fileName)
	filler := bytes.Repeat([]byte("x"), 1000)
	for i := range 2000 {
		mustPut(t, j, fmt.Sprint("key", i%7), string(filler)+fmt.Sprint(i))
	}
	flush(j)
	j.Close(time.Minute)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode = %v, want 0600", info.Mode())
	}
	if info.Size() > 2*minLimitBytes {
		t.Errorf("7 keys take %d bytes after 2,000 writes of 1,000", info.Size())
	}
	got := values(t, dir)
	for i := 1993; i < 2000; i++ {
		if want := fmt.Sprintf(`"%s%d"`, filler, i); got[fmt.Sprint("key", i%7)] != want {
			t.Errorf("key%d is not the last value", i%7)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d keys, want 7", len(got))
	}
}
