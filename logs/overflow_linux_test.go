package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
)

// expectDropRecords checks that a log has numbered lines and drop records, which together account
// for count lines of that many bytes, and no torn line. It returns the number of drop records.
func expectDropRecords(t *testing.T, p *program, log string, count, size int) (dropRecords int) {
	t.Helper()
	next, bytes := 0, 0
	for record := range strings.Lines(log) {
		line := string(frame.Line(p.shared.options.Format, []byte(strings.TrimSuffix(record, "\n")))) + "\n"
		var droppedBytes, droppedLines int
		var cause string
		singular := strings.NewReplacer("1 byte in", "1 bytes in", " in 1 line ", " in 1 lines ", " was dropped", " were dropped")
		if n, _ := fmt.Sscanf(singular.Replace(strings.TrimPrefix(line, "superd: ")), "%d bytes in %d lines were dropped: %s", &droppedBytes, &droppedLines, &cause); n == 3 {
			dropRecords++
			next += droppedLines
			bytes += droppedBytes
			continue
		}
		if want := numberedLine(nil, next); line != string(want) {
			t.Fatalf("line %d is %q after %d drop records", next, line, dropRecords)
		}
		next++
		bytes += len(line)
	}
	if next != count || bytes != size {
		t.Errorf("%d lines of %d bytes are there or in drop records, want %d of %d", next, bytes, count, size)
	}
	return dropRecords
}

// numberedLines returns lines from number first on.
func numberedLines(first, count int) string {
	var text []byte
	for i := range count {
		text = numberedLine(text, first+i)
	}
	return string(text)
}

// TestDropWhileFull: while the disk is full, the program continues, and dropped output is counted.
// Source: row 25 of the failure table.
func TestDropWhileFull(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text, frame.JSON} {
		t.Run(string(format), func(t *testing.T) {
			r := newRig(t)
			r.shortenDelays()
			path := filepath.Join(t.TempDir(), "web.log")
			p := r.program(Options{Path: path, Format: format, Drop: true})
			size, count := 0, 0
			log := func(lines int) {
				text := numberedLines(count, lines)
				p.log(text)
				size, count = size+len(text), count+lines
			}
			log(1000)
			for _, into := range []func() error{
				func() error { return os.Symlink("/dev/full", path) },
				func() error { return os.Mkdir(path, 0o700) },
			} {
				rotated := path + ".20261121T072045.000000Z"
				if count > 1000 {
					rotated = path + ".20991121T072045.000000Z"
				}
				if err := os.Rename(path, rotated); err != nil {
					t.Fatal(err)
				}
				if err := into(); err != nil {
					t.Fatal(err)
				}
				log(5000) // 200 KB: more than the pipe holds
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				r.poll("the drop record", func() bool { // writes are retried after a pause only
					log(10)
					text, err := os.ReadFile(path)
					return err == nil && strings.Contains(string(text), "were dropped")
				})
			}
			contents, names := logstest.Files(t, path)
			if dropRecords := expectDropRecords(t, p, strings.Join(contents, ""), count, size); dropRecords != 2 {
				t.Errorf("%d drop records in %v, want 2", dropRecords, names)
			}
			if _, lines := p.Dropped(); lines < 10_000 || int(lines) >= count {
				t.Errorf("Dropped() = %d lines of %d, want those of two outages", lines, count)
			}
			if format == frame.JSON {
				var record frame.Record
				for line := range strings.Lines(strings.Join(contents, "")) {
					if err := json.Unmarshal([]byte(line), &record); err != nil {
						t.Fatalf("record %q: %v", line, err)
					}
				}
			}
		})
	}
}

// TestDropWhileStalled: while a write to the file stalls, the program continues. Source: row 26 of
// the failure table.
func TestDropWhileStalled(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text} {
		t.Run(string(format), func(t *testing.T) {
			r := newRig(t)
			r.store.stallTimeout = 20 * time.Millisecond
			path := filepath.Join(t.TempDir(), "stalled")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			reader, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			p := r.program(Options{Path: path, Format: format, Drop: true})
			text := numberedLines(0, 20_000)
			p.print(text) // without a drop it would block
			r.awaitLog("stalls", func() {})
			r.await(p.drained(), "what the stalled file doesn't take to be dropped")
			if _, lines := p.Dropped(); lines < 10_000 {
				t.Errorf("%d lines dropped, want most of 20,000", lines)
			}
			var got bytes.Buffer
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = io.Copy(&got, io.LimitReader(reader, 1<<30))
			}()
			r.awaitLog("no longer stalls", func() {})
			last := numberedLines(20_000, 1)
			p.log(last)
			p.rig.do(p.scope.Close)
			r.waitForStore()
			end, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			r.poll("the reader", func() bool { return pipe.Bytes(int(end.Fd())) == 0 })
			if err := reader.SetReadDeadline(time.Now()); err != nil {
				t.Fatal(err)
			}
			r.await(done, "the reader's end")
			end.Close()
			if dropRecords := expectDropRecords(t, p, got.String(), 20_001, len(text)+len(last)); dropRecords != 1 {
				t.Errorf("%d drop records, want 1", dropRecords)
			}
		})
	}
}

// TestMinFree: below the configured free space the file system counts as full.
func TestMinFree(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	o := Options{Path: filepath.Join(dir, "wait.log"), MinFree: 1 << 60}
	waits := r.program(o)
	r.awaitLog("min_free is", func() { waits.print("one\n") })
	o.Path, o.Drop = filepath.Join(dir, "drop.log"), true
	drops := r.program(o)
	drops.log("one\ntwo")
	drops.rig.do(func() { drops.EndRun() })
	drops.log("three\n")
	o.MinFree = 1
	r.do(func() { drops.SetOptions(o) })
	r.poll("the file to be written", func() bool {
		drops.log("four\n")
		return strings.Contains(logstest.ReadFile(t, o.Path), "four")
	})
	text := logstest.ReadFile(t, o.Path)
	if !strings.HasPrefix(text, "superd: ") || !strings.Contains(text, "min_free is 1152921504606846976\nfour\n") {
		t.Errorf("log = %q, want a drop record and what came after it", text)
	}
	o = Options{Path: filepath.Join(dir, "wait.log")}
	r.do(func() { waits.SetOptions(o) })
	waits.log("two\n")
	logstest.Equal(t, "the log of who waits", logstest.ReadFile(t, o.Path), "one\ntwo\n")
}

// TestDropWithoutRecord: dropped output without a drop record in the log is reported in superd's
// own log.
func TestDropWithoutRecord(t *testing.T) {
	r := newRig(t)
	p := r.program(Options{Path: "/dev/full", Drop: true})
	p.log("one\ntwo\n")
	r.do(p.scope.Close)
	r.waitForStore()
	if said := r.log.String(); !strings.Contains(said, "without a record") || !strings.Contains(said, "bytes=8 lines=2") {
		t.Errorf("the log is %q, want what was dropped", said)
	}
}

// TestDropRecordWithoutAnotherLine: a drop record does not wait for the program's next line.
func TestDropRecordWithoutAnotherLine(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text, frame.JSON} {
		r := newRig(t)
		path := filepath.Join(t.TempDir(), "web.log")
		if err := os.Symlink("/dev/full", path); err != nil {
			t.Fatal(err)
		}
		p := r.program(Options{Path: path, Format: format, Drop: true})
		p.log("one\ntwo\n")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		r.poll("the drop record", func() bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "8 bytes in 2 lines were dropped: ") && strings.HasSuffix(string(text), "\n")
		})
		p.log("three\n")
		if text := logstest.ReadFile(t, path); strings.Count(text, "\n") != 2 || !strings.Contains(text, "three") {
			t.Errorf("%s: the log is %q, want the drop record and a line", format, text)
		}
	}
}

// TestStalledWhileOptionsChange: the path changes while an operation on it stalls: the race
// detector finds nothing.
func TestStalledWhileOptionsChange(t *testing.T) {
	directory := t.TempDir() // outlives the rig
	r := newRig(t)
	r.store.stallTimeout = 1
	o := Options{Path: filepath.Join(directory, "0.log"), Drop: true}
	p := r.program(o)
	for i := range 100 {
		o.Path = filepath.Join(directory, fmt.Sprintf("%d.log", i%2))
		r.do(func() { p.SetOptions(o) })
		p.log("a line\n")
	}
}

// TestDropsInJournal: the journal has names of its own for the fields of Drops.
func TestDropsInJournal(t *testing.T) {
	d := Drops{Bytes: 1, Lines: 2, RecordedBytes: 3, RecordedLines: 4}
	text, err := json.Marshal(d)
	if want := `{"Bytes":1,"Lines":2,"ToldBytes":3,"ToldLines":4}`; string(text) != want || err != nil {
		t.Errorf("Marshal(%+v) = %s, %v, want %s", d, text, err, want)
	}
}

func TestDropText(t *testing.T) {
	for want, l := range map[string]dropped{
		"1 byte in 1 line was dropped: full":    {bytes: 1, lines: 1},
		"6 bytes in 1 line were dropped: full":  {bytes: 6, lines: 1},
		"6 bytes in 0 lines were dropped: full": {bytes: 6},
		"8 bytes in 2 lines were dropped: full": {bytes: 8, lines: 2},
	} {
		l.cause = errors.New("full")
		if got := string(l.text()); got != want {
			t.Errorf("text() = %q, want %q", got, want)
		}
	}
}

// TestDroppedLineOfPredecessor: if superd was killed after it had dropped the start of a line, the
// rest of the line is dropped, too.
func TestDroppedLineOfPredecessor(t *testing.T) {
	for _, format := range []frame.Format{frame.Raw, frame.Text} {
		dir := t.TempDir()
		logstest.WriteFile(t, filepath.Join(dir, "no"), "")
		r := newRig(t)
		o := Options{Path: filepath.Join(dir, "no", "web.log"), Format: format, Drop: true}
		p := r.program(o)
		stored, err := unix.Dup(p.FD(Stdout))
		if err != nil {
			t.Fatal(err)
		}
		p.print("half")
		r.poll("it to be dropped", func() bool { bytes, _ := p.Dropped(); return bytes == 4 })
		r.do(p.scope.Close)
		r.waitForStore()

		if err := os.Remove(filepath.Join(dir, "no")); err != nil {
			t.Fatal(err)
		}
		next := &program{rig: r, File: p.File}
		r.do(func() {
			next.scope = r.loop.Root().Child()
			next.Collector = r.store.NewCollector(next.scope, "web", o)
			next.ResumeRun("x")
			next.RestoreDrops(p.Drops())
			if err := next.Attach(Stdout, stored); err != nil {
				t.Error(err)
			}
		})
		next.log(" of it\nwhole\n")
		var lines []string
		for record := range strings.Lines(logstest.ReadFile(t, o.Path)) {
			lines = append(lines, string(frame.Line(format, []byte(record[:len(record)-1]))))
		}
		if got := strings.Join(lines, "|"); len(lines) != 2 || lines[1] != "whole" || !strings.Contains(lines[0], "11 bytes in 1 line were dropped") {
			t.Errorf("%s: file has %q, want a drop record of 11 bytes in a line, and a whole line", format, got)
		}
	}
}

// TestTornRawLine: a predecessor was killed while it wrote a line, which is still in the pipe.
func TestTornRawLine(t *testing.T) {
	for _, resumed := range []bool{true, false} {
		r := newRig(t)
		path := filepath.Join(t.TempDir(), "web.log")
		logstest.WriteFile(t, path, "one\ntwo, of wh")
		read, write := r.fifo()
		p := &program{rig: r, File: write}
		r.do(func() {
			p.scope = r.loop.Root().Child()
			p.Collector = r.store.NewCollector(p.scope, "web", Options{Path: path, Drop: true})
			if resumed {
				p.ResumeRun("x")
			}
			if err := p.Attach(Stdout, read); err != nil {
				t.Error(err)
			}
		})
		p.log("two, of which a half is there\nthree\n")
		want := "one\ntwo, of wh\ntwo, of which a half is there\nthree\n"
		if !resumed { // another program's, or the last run's
			want = "one\ntwo, of whtwo, of which a half is there\nthree\n"
		}
		logstest.Equal(t, "file", logstest.ReadFile(t, path), want)
	}
}
