package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const patience = 90 * time.Second

// notes collects log messages.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func open(t testing.TB, dir string, maxSize int64) (*Log, *notes) {
	t.Helper()
	n := &notes{}
	l := Open(dir, maxSize, slog.New(slog.NewTextHandler(n, nil)))
	t.Cleanup(func() { l.Close(patience) })
	return l, n
}

func event(i int) Event {
	return Event{At: time.Date(2026, 11, 21, 7, 20, 45, 123456789, time.UTC), Kind: State, Instance: "web", Program: "web", From: "running", State: "backoff", Reason: fmt.Sprint("end ", i)}
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func appendN(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		l.Append(event(i))
	}
	flush(t, l)
}

// brief shows events as "1 2 gap3(2) 6".
func brief(events []Event) string {
	var all []string
	for _, e := range events {
		text := fmt.Sprint(e.Cursor)
		if e.Kind == Gap {
			text = fmt.Sprintf("gap%d(%d)", e.Cursor, e.Lost)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func collect(t testing.TB, from iter.Seq2[Event, error]) (all []Event) {
	t.Helper()
	for e, err := range from {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func expect(t testing.TB, l *Log, cursor uint64, want string) []Event {
	t.Helper()
	got := collect(t, l.Since(cursor))
	if brief(got) != want {
		t.Errorf("Since(%d) gives %q, want %q", cursor, brief(got), want)
	}
	return got
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, MaxSize)
	full := Event{
		At: time.Date(2026, 11, 21, 8, 20, 45, 123456789, time.FixedZone("", 3600)), Kind: Exit, Instance: "web@1", Program: "web", Run: "ab12",
		From: "running", State: "backoff", Pid: 7, By: "the operator", Reason: "exit status 3 <&>", Exit: &ExitStatus{Code: new(3), Known: true},
		Started: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC), Duration: new(0.012), CPU: new(0.5), MaxRSS: 4096, RestartIn: new(1.6),
		Output: []string{"a \x1b[2J", "b\xff"},
	}
	l.Append(full)
	l.Append(event(2))
	flush(t, l)
	got := expect(t, l, 0, "1 2")
	full.Cursor = 1
	full.At = time.Date(2026, 11, 21, 7, 20, 45, 123456000, time.UTC)
	full.Output[1] = "b\ufffd"
	if !reflect.DeepEqual(got[0], full) {
		t.Errorf("got  %+v\nwant %+v", got[0], full)
	}
	expect(t, l, 1, "2")
	expect(t, l, 2, "")
	text, err := os.ReadFile(filepath.Join(dir, currentName))
	if err != nil {
		t.Fatal(err)
	}
	if line, want := string(text), `{"cursor":1,"at":"2026-11-21T07:20:45.123456Z","kind":"exit",`; !strings.HasPrefix(line, want) {
		t.Errorf("file begins %q, want %q", line, want)
	}
	if info, err := os.Stat(filepath.Join(dir, currentName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file has mode %v, error %v; want 0600", info.Mode(), err)
	}
}

func TestNumbersGoOn(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		l, n := open(t, dir, MaxSize)
		appendN(t, l, 2)
		l.Close(patience)
		if i == 2 {
			expect(t, l, 0, "1 2 3 4 5 6")
		}
		if n.String() != "" {
			t.Errorf("logged: %s", n)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	const maxSize = 1000
	l, _ := open(t, dir, maxSize)
	for i := range 100 { // one a batch: a batch may be as large as a file
		l.Append(event(i))
		flush(t, l)
		for _, name := range []string{currentName, oldName} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Size() > maxSize {
				t.Fatalf("%s has %d bytes after %d events, want at most %d", name, info.Size(), i+1, maxSize)
			}
		}
	}
	all := collect(t, l.Since(0))
	first := all[0].Cursor
	if first < 80 || all[0].Kind == Gap || all[len(all)-1].Cursor != 100 {
		t.Errorf("Since(0) gives %s; want the last dozen without a gap", brief(all))
	}
	late := collect(t, l.Since(5))
	if want := fmt.Sprintf("gap%d(%d)", first-1, first-6); brief(late[:1]) != want || brief(late[1:]) != brief(all) {
		t.Errorf("Since(5) gives %s; want %s and what is kept", brief(late), want)
	}
	again, _ := open(t, dir, maxSize)
	appendN(t, again, 1)
	expect(t, again, 99, "100 101")
}

func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, MaxSize)
	appendN(t, l, 3)
	l.Close(patience)
	path := filepath.Join(dir, currentName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	l, n := open(t, dir, MaxSize)
	if !strings.Contains(n.String(), "damaged lines") {
		t.Errorf("logged %q; want a word about the torn line", n)
	}
	expect(t, l, 0, "1 2 gap3(1)")
	appendN(t, l, 2)
	expect(t, l, 0, "1 2 gap3(1) 4 5")
	expect(t, l, 3, "4 5")
}

func TestGarbageIsSkipped(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, MaxSize)
	appendN(t, l, 2)
	l.Close(patience)
	path := filepath.Join(dir, currentName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	garbage := "\x00\xff garbage\n{}\n{\"cursor\":77}\n{\"cursor\":99999999999999999999,}\n" + strings.Repeat("long ", lineBytes) + "\n"
	if err := os.WriteFile(path, []byte(garbage+string(text)+garbage), 0o600); err != nil {
		t.Fatal(err)
	}
	l, n := open(t, dir, MaxSize)
	appendN(t, l, 1)
	expect(t, l, 0, "1 2 3")
	if !strings.Contains(n.String(), "damaged lines") {
		t.Errorf("logged %q; want a word about the garbage", n)
	}
}

func TestUnknownCursor(t *testing.T) {
	l, _ := open(t, t.TempDir(), MaxSize)
	appendN(t, l, 2)
	expect(t, l, 500, "gap0(0) 1 2")
}

func TestFilesChangedUnderneath(t *testing.T) {
	changes := map[string]func(path string) error{
		"removed":   os.Remove,
		"moved":     func(path string) error { return os.Rename(path, path+".away") },
		"truncated": func(path string) error { return os.Truncate(path, 0) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, _ := open(t, dir, MaxSize)
			appendN(t, l, 3)
			f := follow(t, l, 0)
			f.expect("1 2 3")
			if err := change(filepath.Join(dir, currentName)); err != nil {
				t.Fatal(err)
			}
			appendN(t, l, 2)
			expect(t, l, 3, "4 5")
			f.expect("4 5")
		})
	}
}

// TestDiskFull stands for every failure to write: the directory is missing for a while.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	l, n := open(t, dir, MaxSize)
	appendN(t, l, 3)
	expect(t, l, 0, "gap3(3)")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	appendN(t, l, 2)
	expect(t, l, 1, "gap3(2) 4 5")
	if log := n.String(); strings.Count(log, "not recorded") != 1 || !strings.Contains(log, "recorded again") || !strings.Contains(log, "lost=3") {
		t.Errorf("logged %q; want one warning, and that it is over with 3 lost", log)
	}
}

func TestQueueIsBounded(t *testing.T) {
	l, n := open(t, t.TempDir(), 64<<20)
	l.files.names.Lock() // the writer hangs as it opens its file
	const extra = 100
	for i := range maxWaiting + extra {
		l.Append(event(i))
	}
	l.mu.Lock()
	waiting := len(l.waiting)
	l.mu.Unlock()
	if waiting > maxWaiting {
		t.Errorf("%d events wait, want at most %d", waiting, maxWaiting)
	}
	// The writer may have taken a first batch before the queue was full.
	for i := range maxWaiting {
		l.Append(event(i))
	}
	l.files.names.Unlock()
	flush(t, l)
	appendN(t, l, 1)
	var read, lost uint64
	for _, e := range collect(t, l.Since(0)) {
		if e.Kind == Gap {
			lost += e.Lost
		} else {
			read++
		}
	}
	if total := uint64(2*maxWaiting + extra + 1); read+lost != total || lost == 0 {
		t.Errorf("%d events read and %d reported as lost, want %d in all and some lost", read, lost, total)
	}
	if !strings.Contains(n.String(), "events lost") {
		t.Errorf("logged %q; want a message about lost events", n)
	}
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	l, _ := open(t, t.TempDir(), 10_000)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 500 {
				l.Append(event(i))
			}
		})
	}
	for range 4 {
		all.Go(func() {
			var last uint64
			for e := range l.Follow(t.Context(), 0) {
				if e.Kind == Gap && e.Cursor-e.Lost != last || e.Kind != Gap && last > 0 && e.Cursor != last+1 {
					t.Errorf("after %d comes %s", last, brief([]Event{e}))
				}
				if last = e.Cursor; last == 2000 {
					break
				}
			}
		})
	}
	all.Wait()
}

func TestEventHoldsBoundedText(t *testing.T) {
	l, _ := open(t, t.TempDir(), MaxSize)
	e := event(1)
	e.Reason = strings.Repeat("ä", maxText)
	l.Append(e)
	flush(t, l)
	got := collect(t, l.Since(0))[0].Reason
	if len(got) > maxText+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("reason has %d bytes and ends %q; want at most %d, cut between characters", len(got), got[len(got)-6:], maxText)
	}
}

func TestErrorEndsReading(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, currentName), 0o700); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, dir, MaxSize)
	var errs []error
	for _, err := range l.Since(0) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || errs[0] == nil {
		t.Errorf("reading a directory gives %v, want one error", errs)
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	l, _ := open(t, t.TempDir(), MaxSize)
	l.files.names.Lock()
	defer l.files.names.Unlock()
	l.Append(event(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush while the disk hangs: %v, want %v", err, context.Canceled)
	}
}

// FuzzReader reads any file: nothing stops the log, cursors grow, gaps are reported, and events
// appended afterwards are read.
func FuzzReader(f *testing.F) {
	line := func(n int) string {
		e := event(n)
		e.Cursor = uint64(n)
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		return string(text) + "\n"
	}
	f.Add([]byte(""), []byte(""))
	f.Add([]byte(line(1)+line(2)), []byte(line(3)+line(4)[:30]))
	f.Add([]byte("\x00\n"), []byte(line(7)+"{\"cursor\":3,\n\n"+line(9)+line(8)))
	f.Add([]byte(line(5)), []byte(line(2)+`{"cursor":6,"at":"2026-11-21T07:20:45Z","kind":"x"}`))
	f.Fuzz(func(t *testing.T, old, current []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{oldName: old, currentName: current} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l := Open(dir, MaxSize, slog.New(slog.DiscardHandler))
		defer l.Close(patience)
		if l.assigned() > maxCursor-10 {
			t.Skip()
		}
		l.Append(event(1))
		flush(t, l)
		all := collect(t, l.Since(0))
		if len(all) == 0 {
			t.Fatal("nothing is read")
		}
		last := all[0].Cursor
		for _, e := range all[1:] {
			if e.Kind == Gap && e.Lost > 0 && e.Cursor-e.Lost == last || e.Cursor == last+1 {
				last = e.Cursor
				continue
			}
			t.Fatalf("after %d comes %+v", last, e)
		}
		if newest := all[len(all)-1]; newest.Cursor != l.assigned() || newest.Reason != "end 1" {
			t.Errorf("the newest event is %+v, want that appended, %d", newest, l.assigned())
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, _ := open(b, b.TempDir(), MaxSize)
	e := event(1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		l.Append(e)
		if i%64 == 63 {
			flush(b, l)
		}
	}
}

// exit is an event with many fields.
func exit() Event {
	return Event{
		Cursor: 123_456, At: time.Date(2026, 11, 21, 7, 20, 45, 123456000, time.UTC), Kind: Exit, Instance: "web@1", Program: "web",
		Run: "0123456789abcdef0123456789abcdef", Pid: 7000, Reason: "exit status 3", ReasonKind: "exited", Exit: &ExitStatus{Code: new(3), Known: true},
		Started: time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC), Duration: new(0.012), CPU: new(0.5), MaxRSS: 4096,
	}
}

func BenchmarkEncode(b *testing.B) {
	var buffer bytes.Buffer
	e := exit()
	b.ReportAllocs()
	for b.Loop() {
		buffer.Reset()
		if err := Encode(&buffer, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRecordedRuns(b *testing.B) {
	l, _ := open(b, b.TempDir(), MaxSize)
	for range 1000 {
		for range 10 {
			l.Queue(exit())
		}
		flush(b, l)
	}
	for b.Loop() {
		if runs, err := l.RecordedRuns(); len(runs) != 1 || err != nil {
			b.Fatal(runs, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	l, _ := open(b, b.TempDir(), MaxSize)
	for range 1000 {
		appendN(b, l, 10)
	}
	for b.Loop() {
		if n := len(slices.Collect(keys(l.Since(0)))); n < 5000 {
			b.Fatal(n)
		}
	}
}

func keys(from iter.Seq2[Event, error]) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for e := range from {
			if !yield(e) {
				return
			}
		}
	}
}

// TestTold: the starts and exits in the files are found, in both files, and only complete ones.
func TestTold(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir, 400)
	for _, e := range []Event{
		{Kind: Start, Run: "a", Pid: 1},
		{Kind: Exit, Run: "a", Reason: `"kind":"start","run":"z"`, Exit: &ExitStatus{}},
		{Kind: State, Run: "b"},
		{Kind: Start, Run: "c", Pid: 2},
	} {
		e.At, e.Instance = now(), "web"
		l.Append(e)
		flush(t, l) // one write for each
	}
	if _, err := os.Stat(filepath.Join(dir, oldName)); err != nil {
		t.Fatalf("it is to fill two files: %v", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, currentName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"cursor":5,"kind":"start","run":"d"`); err != nil {
		t.Fatal(err)
	}
	got, err := l.RecordedRuns()
	want := map[string]Recorded{"a": {true, true}, "c": {Start: true}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("Told: %v, %v; want %v", got, err, want)
	}
}

// TestEncode: a line has no escapes but those that protect a terminal, and an event that has no
// line leaves the buffer as it is.
func TestEncode(t *testing.T) {
	var b bytes.Buffer
	e := Event{Cursor: 7, At: time.Unix(0, 1999), Kind: Output, By: "<&>", Reason: "ü€\t\xff", Output: []string{"\u2028\x7f\u009b\u202e"}}
	if err := Encode(&b, &e); err != nil {
		t.Fatal(err)
	}
	want := `{"cursor":7,"at":"1970-01-01T00:00:00.000001Z","kind":"output","by":"<&>",` +
		`"reason":"ü€\t\ufffd","output":["\u2028\u007f\u009b\u202e"]}` + "\n"
	if got := b.String(); got != want {
		t.Errorf("Encode: %s, want %s", got, want)
	}
	before := b.String()
	if err := Encode(&b, &Event{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil || b.String() != before {
		t.Errorf("Encode: %v, %s; want an error and what was there", err, b.String())
	}
}
