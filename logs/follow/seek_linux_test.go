package follow

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/segment"
)

// newFile returns a log file with a text, and its log.
func newFile(t *testing.T, text string) (*segment.File, *fakeLog) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, text)
	f := new(segment.File)
	f.Init(path, &segment.Options{Format: frame.Text}, time.Now, nil)
	t.Cleanup(f.Release)
	return f, &fakeLog{segs: f.Log()}
}

// TestSinceInLargeFile: --since finds its position among many records without reading them all,
// whatever is between them.
func TestSinceInLargeFile(t *testing.T) {
	begin := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	var file strings.Builder
	for i := range 100_000 {
		if i%1000 == 500 {
			file.WriteString("no record\n")
		}
		fmt.Fprintf(&file, "%s stdout %d\n", begin.Add(time.Duration(i)*time.Millisecond).Format(frame.TimeLayout), i)
	}
	_, log := newFile(t, file.String())
	s := &source{query: &Query{}}
	s.follower = follower{ctx: t.Context(), log: log, readers: log.Readers(), w: s, buffer: make([]byte, leastRead)}
	logstest.Must(t, s.setSegments(log.segs))
	for _, i := range []int{0, 1, 777, 50_000, 99_999} {
		want := begin.Add(time.Duration(i) * time.Millisecond)
		p, coarse, err := s.seek(want)
		position := int64(strings.Index(file.String(), want.Format(frame.TimeLayout)))
		if err != nil || coarse || p > position || position-p > 3*leastRead {
			t.Errorf("seek(%v) = %d, %v, %v; it is at %d", want, p, coarse, err, position)
		}
	}
}

// TestTornRecordIsAwaited: a reader that waits for a line, and has read a part of the record during
// which superd was killed, gets the whole record instead.
func TestTornRecordIsAwaited(t *testing.T) {
	const at = "2026-11-21T07:20:45.123456Z stdout "
	const torn = at + "n"
	file, log := newFile(t, at+"ready\n"+at+"second\n"+torn)
	m := &lineMatcher{pattern: regexp.MustCompile("^new$"), format: func() frame.Format { return frame.Text }}
	f := &follower{ctx: t.Context(), log: log, readers: log.Readers(), w: m, buffer: make([]byte, awaitBuffer), lineEnded: true}
	defer f.closeFile()
	logstest.Must(t, f.setSegments(log.segs))
	f.position = log.segs.End() - int64(len(at+"second\n"+torn))
	read := func() (err error) {
		for more := true; more && err == nil; {
			more, err = f.showNext(noEnd)
		}
		return err
	}
	write := func(line string) {
		t.Helper()
		var dropRecord []byte
		if _, err := file.AppendAfter(&dropRecord, []byte(at+line), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(); err != nil || string(m.inFile) != torn {
		t.Fatalf("read %q so far, %v; want %q", m.inFile, err, torn)
	}
	write("new\n")
	if err := read(); !errors.Is(err, errMatched) || m.matched != "new" {
		t.Errorf("read() = %v, %q", err, m.matched)
	}
}
