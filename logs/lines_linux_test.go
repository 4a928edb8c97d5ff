package logs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/read"
)

// recorded returns the records of all segments at path, oldest first.
func recorded(t testing.TB, path string) []frame.Record {
	t.Helper()
	var all []frame.Record
	for line := range strings.Lines(logstest.Joined(t, path)) {
		var r frame.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("record %.200q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func TestRecordsOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	r := newRig(t)
	p := r.program(Options{Program: "web", Path: path, Format: frame.JSON})
	before := time.Now().Add(-time.Millisecond)
	p.rig.do(func() { p.BeginRun("first", false) })
	p.log("one\nhalf") // Drained: all output has to be in the file
	p.log(" a line\n")
	p.print("last")
	p.rig.do(func() { p.EndRun() })
	p.rig.do(func() { p.BeginRun("second", false) })
	r.await(p.drained(), "the first run's output") // a process takes longer to start
	p.log("two\n")
	want := []frame.Record{
		{Run: "first", Line: "one"}, {Run: "first", Line: "half", Partial: true}, {Run: "first", Line: " a line"},
		{Run: "first", Line: "last"}, {Run: "second", Line: "two"},
	}
	got := recorded(t, path)
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		at, err := time.Parse(time.RFC3339Nano, got[i].Time)
		if err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("record %d is of %s, want now (%v)", i, got[i].Time, err)
		}
		w.Time, w.Program, w.Instance, w.Stream = got[i].Time, "web", "web", "stdout"
		if got[i] != w {
			t.Errorf("record %d = %+v, want %+v", i, got[i], w)
		}
	}
	if got := p.lastLine(); got != "two" {
		t.Errorf("lastLine() = %q, want two", got)
	}
	logstest.Equal(t, "tail", p.tail(), "two\n")
}

// TestUnfinishedLine: an incomplete line stays in the pipe for a while, where a crash of superd
// does not lose it; then it is written as a partial record.
func TestUnfinishedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, Format: frame.Text})
	start := time.Now()
	p.print("one\nhal")
	p.until("the first line", func() bool { return p.lastLine() == "one" })
	if text := logstest.ReadFile(t, path); strings.Contains(text, "hal") && time.Since(start) < partialTimeout {
		t.Errorf("the file has half a line too early: %q", text)
	}
	p.until("half a line", func() bool { return strings.HasSuffix(logstest.ReadFile(t, path), " stdout+ hal\n") })
	p.print("f\n")
	p.until("the rest", func() bool { return strings.HasSuffix(logstest.ReadFile(t, path), " stdout f\n") })
}

// TestLineAfterLastCheck: a line that comes between the last check of the pipe and the wait for the
// rest of a partial line is written at once, not after partialTimeout.
func TestLineAfterLastCheck(t *testing.T) {
	p := newRig(t).program(Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text})
	p.log("one\n")
	p.rig.poll("no goroutine to drain", p.claimDrain)
	w := read.NewWakeup()
	p.setWakeup(w)
	p.print("two\n")
	start := time.Now()
	if !p.awaitPartialLines() {
		t.Error("awaitPartialLines() = false, want true")
	}
	if d := time.Since(start); d >= partialTimeout {
		t.Errorf("awaitPartialLines() took %v", d)
	}
	go p.run(w)
	p.until("the line", func() bool { return p.lastLine() == "two" })
}

// TestLinesOfBigWrites: lines are whole although a write that waits for room ends in the middle of
// them. The program may fill the pipe between the peek at the rest of a line and the check whether
// the pipe is full.
func TestLinesOfBigWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path, Format: frame.JSON, MaxSize: 1 << 30})
	line := strings.Repeat("0123456789", 51) + "\n"
	text := strings.Repeat(line, 500)
	for range 100 {
		p.print(text)
	}
	p.print("end\n")
	p.until("the last line", func() bool { return p.lastLine() == "end" })
	for i, record := range recorded(t, path) {
		if record.Partial {
			t.Fatalf("record %d is partial: %q", i, record.Line)
		}
	}
}

// TestEndlessRecords: lines without an end, and pipes of any size that show no line's end. Source:
// row 20 of the failure table.
func TestEndlessRecords(t *testing.T) {
	for _, pipe := range []int{4096, 8192, 65536, 1 << 20} {
		t.Run(fmt.Sprint(pipe), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			p := newRig(t).program(Options{Path: path, Format: frame.JSON, MaxSize: 50_000, Keep: 1000})
			if _, err := unix.FcntlInt(p.Fd(), unix.F_SETPIPE_SZ, pipe); err != nil {
				t.Fatal(err)
			}
			text := strings.Repeat("0123456789abcdé", 20_000)
			p.log(text + "\nnext\n")
			var line strings.Builder
			for _, record := range recorded(t, path) {
				if len(record.Line) > frame.MaxLine {
					t.Errorf("a record has %d bytes of a line", len(record.Line))
				}
				line.WriteString(record.Line)
				if !record.Partial {
					line.WriteByte('\n')
				}
			}
			logstest.Equal(t, "lines", line.String(), text+"\nnext\n")
		})
	}
}

// TestRecordsOnAFullDisk: rotation cuts between records, and a full disk tears or repeats none of
// them.
func TestRecordsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	r := newRig(t)
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "log", "web.log")
	p := r.program(Options{Path: path, Format: frame.JSON, MaxSize: 30_000, Keep: 1000})
	const lines = 3000
	written := make(chan error)
	r.awaitLog("no space left on device", func() {
		go func() {
			for i := range lines {
				fmt.Fprintf(p, "line %d\n", i)
			}
			written <- nil
		}()
	})
	next := 0
	take := func() { // makes space, as a log shipper would
		_, names := logstest.Files(t, path)
		for _, name := range names[:max(0, len(names)-1)] {
			for line := range strings.Lines(logstest.ReadFile(t, name)) {
				var record frame.Record
				if err := json.Unmarshal([]byte(line), &record); err != nil || record.Line != fmt.Sprintf("line %d", next) {
					t.Fatalf("%s has %q, want line %d (%v)", name, line, next, err)
				}
				next++
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for done := false; !done; {
		take()
		select {
		case <-written:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	drained := p.drained()
	for done := false; !done; {
		take()
		select {
		case <-drained:
			done = true
		case <-time.After(time.Millisecond):
		}
	}
	for _, record := range recorded(t, path) {
		if want := fmt.Sprintf("line %d", next); record.Line != want {
			t.Fatalf("record %+v, want %s", record, want)
		}
		next++
	}
	if next != lines {
		t.Errorf("%d lines, want %d", next, lines)
	}
}

// TestTornRecord: the end of the file that a superd finds is a record during which its predecessor
// was killed, or something else.
func TestTornRecord(t *testing.T) {
	const before = `{"time":"2026-11-21T07:20:45.123456Z","program":"web","instance":"web","run":"x","stream":"stdout","partial":false,"line":"whole"}` + "\n"
	tests := []struct{ name, there, want string }{
		{"nothing", "", ""},
		{"a whole record", before, before},
		{"half a record", before + `{"time":"2026-11-21T07:20:45.1234`, before},
		{"a byte of a record", before + `{`, before},
		{"half a record and nothing else", before[:len(before)-5], ""},
		{"something else", before + "half a raw line", before + "half a raw line\n"},
		{"raw output that could be the beginning of a record", "raw\n{", "raw\n{\n"},
		{"as much, and nothing else", `{"time":"2026`, `{"time":"2026` + "\n"},
		{"raw output much like a record", before + `{"time":"2026-11-21T07:20:45.123456Z","level":"info`, before + `{"time":"2026-11-21T07:20:45.123456Z","level":"info` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			logstest.WriteFile(t, path, tt.there)
			p := newRig(t).program(Options{Path: path, Format: frame.JSON})
			p.log("new\n")
			got, ok := strings.CutPrefix(logstest.ReadFile(t, path), tt.want)
			var record frame.Record
			if err := json.Unmarshal([]byte(got), &record); !ok || err != nil || record.Line != "new" {
				t.Errorf("file = %q, want %q and a record (%v)", logstest.ReadFile(t, path), tt.want, err)
			}
		})
	}
}

// TestRawLineIsNoTornRecord: a raw line without an end, which is no longer in a pipe, stays when
// the format changes, whatever it resembles.
func TestRawLineIsNoTornRecord(t *testing.T) {
	for _, tail := range []string{"2026", at(1) + "  INFO last words", at(1) + " stdout last words"} {
		for _, opened := range []bool{true, false} {
			path := filepath.Join(t.TempDir(), "web.log")
			content := at(0) + " stdout of superd's own\n" + tail
			r := newRig(t)
			var p *program
			if opened {
				p = r.program(Options{Path: path})
				p.log(content)
			} else { // written by a predecessor, with whose options this one begins
				logstest.WriteFile(t, path, content)
				p = r.program(Options{Path: path})
			}
			r.do(func() { p.SetOptions(Options{Path: path, Format: frame.Text}) })
			p.log("new\n")
			if got := logstest.ReadFile(t, path); !strings.HasPrefix(got, content+"\n") || !strings.HasSuffix(got, "Z stdout new\n") {
				t.Errorf("opened before: %t: file = %q, want %q and a record", opened, got, content+"\n")
			}
		}
	}
}

// TestTornRecordIsRetracted: a reader that has shown a part of the record during which superd was
// killed gets the whole record instead, and nothing else twice.
func TestTornRecordIsRetracted(t *testing.T) {
	const earlier = "2026-11-21T07:20:45.123456Z stdout ready\n2026-11-21T07:20:45.123456Z stdout the run before has ended\n"
	const content = earlier + "2026-11-21T07:20:45.123456Z stdout second\n"
	const torn = "2026-11-21T07:20:45.123456Z stdout n"
	begin := func(t *testing.T) *program {
		path := filepath.Join(t.TempDir(), "web.log")
		logstest.WriteFile(t, path, content+torn)
		return newRig(t).program(Options{Path: path, Format: frame.Text})
	}
	t.Run("follower", func(t *testing.T) {
		p := begin(t)
		f := p.follow(10)
		f.expect(content + torn)
		p.log("new\n")
		f.expect(content + torn + "\n" + logstest.ReadFile(t, p.Path())[len(content):])
	})
	t.Run("reading", func(t *testing.T) {
		for _, raw := range []bool{false, true} {
			p := begin(t)
			reading := follow.NewReading(t.Context(), follow.Query{Lines: 1, Follow: true, Raw: raw})
			defer reading.Close()
			if err := reading.Set([]follow.Input{{Log: p.Collector.Log(Stdout)}}); err != nil {
				t.Fatal(err)
			}
			last, next := "web:second ", "web:new "
			if raw {
				last, next = "web:"+torn+"+ ", "web:"
			}
			if got := rest(t, reading); got != last {
				t.Errorf("raw: %t: read %q first, want %q", raw, got, last)
			}
			p.log("new\n")
			if raw {
				next += logstest.ReadFile(t, p.Path())[len(content):]
				next = next[:len(next)-1] + " "
			}
			if got := rest(t, reading); got != next {
				t.Errorf("raw: %t: read %q then, want %q", raw, got, next)
			}
		}
	})
}

// TestFormatChanges: the format changes within a line.
func TestFormatChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	p := newRig(t).program(Options{Path: path})
	p.log("raw\nhalf")
	p.rig.do(func() { p.SetOptions(Options{Path: path, Format: frame.Text}) })
	p.log(" of it\n")
	p.rig.do(func() { p.SetOptions(Options{Path: path}) })
	p.log("raw\n")
	lines := strings.Split(logstest.ReadFile(t, path), "\n")
	if len(lines) != 5 || lines[0] != "raw" || lines[1] != "half" || !strings.HasSuffix(lines[2], "Z stdout  of it") || lines[3] != "raw" {
		t.Errorf("file = %q", lines)
	}
}
