package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// flush waits until the queue is written.
func flush(j *Journal) {
	done := make(chan struct{})
	j.Flush(func(error) { close(done) })
	<-done
}

// values returns the values of the journal in dir, as text.
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
	mustPut(t, j, "start/web/1", 5)
	flush(j)
	j.Queue("instance/db", "x")
	j.Queue("instance/web", map[string]int{"pid": 2})
	j.Queue("start/web/1", nil)
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
	for range 30 { // whichever of the two comes first
		dir := t.TempDir()
		j, _ := mustOpen(t, dir)
		j.Queue("a", 1)
		j.Queue("b", 1)
		mustPut(t, j, "a", 2)
		j.Close(time.Minute)
		equal(t, "read back", values(t, dir), map[string]string{"a": "2", "b": "1"})
	}
}

func TestFileIsPrivateAndCompacted(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	path := filepath.Join(dir, fileName)
	filler := bytes.Repeat([]byte("x"), 1000)
	for i := range 4000 {
		mustPut(t, j, fmt.Sprint("key", i%7), string(filler)+fmt.Sprint(i))
	}
	flush(j)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 3*minLimitBytes {
		t.Errorf("7 keys take %d bytes after 4,000 writes of 1,000", info.Size())
	}
	for info.Size() > minLimitBytes { // compacted when idle
		time.Sleep(10 * time.Millisecond)
		if info, err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	j.Close(time.Minute)
	if info.Mode() != 0o600 {
		t.Errorf("mode = %v, want 0600", info.Mode())
	}
	got := values(t, dir)
	for i := 3993; i < 4000; i++ {
		if want := fmt.Sprintf(`"%s%d"`, filler, i); got[fmt.Sprint("key", i%7)] != want {
			t.Errorf("key%d is not the last value", i%7)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d keys, want 7", len(got))
	}
}

func TestNothingWaitsForADiskThatStalls(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	flushed := make(chan struct{})
	j.io.Lock() // as if a write did not return
	for i := range 10_000 {
		j.Queue(fmt.Sprint("key", i%10), i)
	}
	j.Flush(func(error) { close(flushed) })
	j.mu.Lock()
	waiting := len(j.queue)
	j.mu.Unlock()
	if waiting > 10 {
		t.Errorf("%d values of 10 keys wait", waiting)
	}
	j.Close(time.Millisecond)
	j.Queue("key0", "too late")
	j.io.Unlock()
	<-flushed
	j.Close(time.Minute)
	want := map[string]string{}
	for i := 9990; i < 10_000; i++ {
		want[fmt.Sprint("key", i%10)] = fmt.Sprint(i)
	}
	equal(t, "at the end", values(t, dir), want)
	if err := j.Put("key0", 1); !errors.Is(err, errClosed) {
		t.Errorf("Put after Close: %v", err)
	}
	called := false
	j.Flush(func(error) { called = true })
	if !called {
		t.Error("Flush after Close does not call")
	}
}

func TestValuesThatCannotBeRecorded(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	for name, value := range map[string]any{
		"no JSON": func() {}, "two lines": rawJSON("[\n]"),
	} {
		if err := j.Put("a", value); err == nil || !strings.HasPrefix(err.Error(), "record a: ") {
			t.Errorf("%s: %v", name, err)
		}
		j.Queue("b", value)
		j.Queue("c", name)
		flush(j)
		equal(t, name, values(t, dir), map[string]string{"c": strconv.Quote(name)})
	}
}

func TestRecordsAreBounded(t *testing.T) {
	const before = "before\n"
	for n, want := range map[int]bool{99: true, 100: false} {
		b := append([]byte(before), strings.Repeat("x", n)...)
		line, err := seal(b, len(before), 100)
		if (err == nil) != want || err != nil && string(line) != before {
			t.Errorf("seal of %d bytes where 100 are too many: %q, %v", n, line, err)
		}
	}
}

func TestWhatCouldNotBeWrittenKeepsItsPlace(t *testing.T) {
	of := func(key string, value int, number uint64) entry { return entry{key: key, value: value, number: number} }
	j := &Journal{queueIndex: map[string]int{}}
	j.queue = []entry{of("b", 2, 4), of("c", 1, 5)}
	j.queueIndex["b"], j.queueIndex["c"] = 0, 1
	j.requeue([]entry{of("a", 1, 1), {}, of("b", 1, 2)})
	want := []entry{of("a", 1, 1), {}, of("b", 2, 4), of("c", 1, 5)}
	if !slices.Equal(j.queue, want) {
		t.Errorf("queue = %v, want %v", j.queue, want)
	}
	if want := map[string]int{"a": 0, "b": 2, "c": 3}; !maps.Equal(j.queueIndex, want) {
		t.Errorf("queueIndex = %v, want %v", j.queueIndex, want)
	}
}

// TestFirst: a value that others refer to is written before all of them, even after a failed write.
func TestFirst(t *testing.T) {
	j := &Journal{queueIndex: map[string]int{}}
	j.more.L = &j.mu
	keys := func() (keys []string) {
		for _, e := range j.queue {
			if e.key != "" {
				keys = append(keys, fmt.Sprint(e.key, e.value))
			}
		}
		for key, at := range j.queueIndex {
			if j.queue[at].key != key {
				t.Errorf("%s is said to be at %d of %v", key, at, j.queue)
			}
		}
		return keys
	}
	want := func(want ...string) {
		t.Helper()
		if got := keys(); !slices.Equal(got, want) {
			t.Fatalf("queue = %v, want %v", got, want)
		}
	}
	j.Queue("a", 1)
	j.Queue("b", 1)
	j.QueueFirst("config/1", 1)
	j.Queue("a", 2)
	j.QueueFirst("config/2", 1)
	want("config/11", "config/21", "a2", "b1")
	j.Queue("config/1", nil) // after what was queued by then
	want("config/21", "a2", "b1", "config/1<nil>")

	batch := j.queue
	j.queue = nil
	clear(j.queueIndex)
	j.Queue("b", 2)
	j.QueueFirst("config/3", 1)
	j.Queue("a", 3)
	j.requeue(batch)
	want("config/21", "config/31", "a3", "b2", "config/1<nil>")

	j.QueueFirst("config/1", 2) // a removed value is there again
	want("config/21", "config/31", "config/12", "a3", "b2")
}

func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	pad := strings.Repeat("x", 500)
	var group sync.WaitGroup
	want := map[string]string{}
	for w := range 8 {
		want[fmt.Sprint("shared/", w)] = fmt.Sprintf("%q", pad+"199")
		group.Go(func() {
			for i := range 200 {
				// This goroutine is the only one with this key, so its queued value must not
				// overtake its Put.
				key := fmt.Sprint("shared/", w)
				j.Queue(key, pad+fmt.Sprint(i-1))
				if err := j.Put(key, pad+fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				j.Queue("all", i)
				j.Queue(fmt.Sprint("gone/", w, i), i)
				j.Flush(func(error) {})
				j.Queue(fmt.Sprint("gone/", w, i), nil)
			}
		})
	}
	group.Wait()
	j.Close(time.Minute)
	got := values(t, dir)
	delete(got, "all")
	equal(t, "at the end", got, want)
}

// TestWrite: Write writes the whole queue together.
func TestWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, err := Open(t.TempDir(), boot, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close(time.Minute)
		j.Queue("a", 1)
		synctest.Wait()
		if j.Idle() {
			t.Error("a was written before Write")
		}
		j.Write()
		synctest.Wait()
		if !j.Idle() {
			t.Error("a was not written after Write")
		}
	})
}

// TestPutTakesAlong: what was queued before a Put is in the file before it, in one write, and stays
// queued if there is no space.
func TestPutTakesAlong(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	path := filepath.Join(dir, fileName)
	header, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	j.Queue("instance/web", "ended")
	j.Queue("start/web/1", nil)
	j.io.Lock() // so that a value is queued while Put waits
	put := make(chan error)
	go func() { put <- j.Put("start/web/2", "new") }()
	j.Queue("instance/db", "x")
	j.io.Unlock()
	if err := <-put; err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text[len(header):])) {
		key, _, _ := strings.Cut(line[sumBytes+len(`{"k":"`):], `"`)
		got = append(got, key)
	}
	if want := []string{"instance/web", "start/web/1", "instance/db", "start/web/2"}; !slices.Equal(got, want) {
		t.Errorf("the file has %v, want %v", got, want)
	}
	if !j.Idle() {
		t.Error("what was written with a Put still waits")
	}

	j.io.Lock()
	f := j.file.f
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	j.file.f = readOnly // no write succeeds
	j.io.Unlock()
	j.Queue("instance/web", "running")
	if err := j.Put("start/web/3", "new"); err == nil {
		t.Fatal("a write to a file that is open for reading succeeds")
	}
	if j.Idle() {
		t.Error("what could not be written is forgotten")
	}
	j.io.Lock()
	j.file.f = f
	j.io.Unlock()
	readOnly.Close()
	mustPut(t, j, "start/web/4", "new")
	equal(t, "at the end", values(t, dir), map[string]string{
		"instance/web": `"running"`, "instance/db": `"x"`, "start/web/2": `"new"`, "start/web/4": `"new"`,
	})
}
