package logs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/segment"
)

// A piece is a line or a part of one that a reading has returned, or a note.
type piece struct {
	instance, time, stream, line string
	partial, continued           bool
	missing                      int64
}

// pieces returns what the reading returns until now, blocks as their lines.
func pieces(t testing.TB, r *follow.Reading) (all []piece, blocks int) {
	t.Helper()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return all, blocks
		}
		if e.IsCursorOnly() {
			continue
		}
		lines := []string{string(e.Line)}
		if e.Lines > 1 {
			lines = strings.Split(string(e.Line), "\n")
			if blocks++; len(lines) != e.Lines {
				t.Fatalf("a block of %d lines has %d: %q", e.Lines, len(lines), e.Line)
			}
		}
		for _, line := range lines {
			all = append(all, piece{e.Instance, e.Time, e.Stream, line, e.Partial, e.Continued, e.MissingBytes})
		}
	}
}

// variedLogs makes logs of each format with whatever may separate lines: other times, streams and
// runs, parts of lines, and lines that superd has not written.
func (r *rig) variedLogs() []follow.Input {
	r.Helper()
	long := strings.Repeat("long ", 8000)
	text := texts(1, 1, 1, 2, 2) + at(2) + " stderr line 2\n" + at(2) + " stdout+ part\n" + at(2) + " stdout line of it\n" +
		"no record\n" + texts(2, 2, 3) + at(3) + " stdout \n" + at(3) + " stdout \n"
	json := jsons("aa", 1, 1, 1) + jsons("bb", 1, 1, 2) + strings.ReplaceAll(jsons("bb", 2, 2), "line 2", `a \"line\"\t\\ é`) +
		strings.ReplaceAll(jsons("bb", 2, 2), "line 2", `a line\nof two`) + "no record\n" + jsons("bb", 2, 3)
	raw := "line 1\nline 2\n\n\nmid " + long + "\nline 3\n" + long + "\nline 4\nno end"
	dir := r.logDir(map[string]string{"t@2": text, "t": text, "j@2": json, "j": json, "r@2": raw + "\n", "r": raw})
	return []follow.Input{
		{Log: r.newCollector(dir, "t", frame.Text).Log(Stdout)}, {Log: r.newCollector(dir, "j", frame.JSON).Log(Stdout)},
		{Log: r.newCollector(dir, "r", frame.Raw).Log(Stdout)},
	}
}

// eachQuery calls f with queries of many kinds.
func eachQuery(f func(name string, q follow.Query)) {
	for _, raw := range []bool{false, true} {
		for _, lines := range []int{-1, 1, 4, 7} {
			for name, q := range map[string]follow.Query{
				"any": {}, "since": {Since: instant(2)}, "until": {Until: instant(2)},
				"line": {Grep: regexp.MustCompile("line")}, "parts": {Grep: regexp.MustCompile("mid|part|line")},
				"alternatives": {Grep: regexp.MustCompile("line 2|of it|long")},
				"escaped":      {Grep: regexp.MustCompile(`a "line"`)},
				"fold":         {Grep: regexp.MustCompile("(?i)LINE 2|Of iT|lonG")},
				"fold 2":       {Grep: regexp.MustCompile("(?i)no record|É|m[iI]D")},
				"anchors":      {Grep: regexp.MustCompile(`^line [13]$`)},
				"no literal":   {Grep: regexp.MustCompile("[0-9]$")}, "empty": {Grep: regexp.MustCompile("^$")},
			} {
				q.Raw, q.Lines = raw, lines
				f(fmt.Sprintf("%s, %d lines, raw %v", name, lines, raw), q)
			}
		}
	}
}

func (r *rig) readPieces(q follow.Query, inputs ...follow.Input) (all []piece, blocks int) {
	r.Helper()
	reading := follow.NewReading(r.Context(), q)
	defer reading.Close()
	if err := reading.Set(inputs); err != nil {
		r.Fatal(err)
	}
	return pieces(r, reading)
}

// TestBlocksHaveTheSameLines: blocks change how many lines are returned at a time, and nothing
// else.
func TestBlocksHaveTheSameLines(t *testing.T) {
	r := newRig(t)
	for _, input := range r.variedLogs() {
		eachQuery(func(name string, q follow.Query) {
			want, _ := r.readPieces(q, input)
			q.Blocks = true
			got, blocks := r.readPieces(q, input)
			if !slices.Equal(got, want) {
				t.Errorf("%s of %s:\ngot  %.300v\nwant %.300v", name, input.Log.Name(), got, want)
			}
			if q.Lines < 0 && q.Grep == nil && blocks == 0 {
				t.Errorf("%s of %s: no block", name, input.Log.Name())
			}
		})
	}
}

// TestBlocksKeepTheOrder: blocks of several logs do not change the order of their lines.
func TestBlocksKeepTheOrder(t *testing.T) {
	r := newRig(t)
	inputs := r.variedLogs()
	want, _ := r.readPieces(follow.Query{Lines: -1}, inputs...)
	got, blocks := r.readPieces(follow.Query{Lines: -1, Blocks: true}, inputs...)
	if !slices.Equal(got, want) || blocks == 0 {
		t.Errorf("%d blocks\ngot  %.2000v\nwant %.2000v", blocks, got, want)
	}
}

// TestGrepSkipsNoMatch: the lines that match are those of all lines that match, however they are
// found.
func TestGrepSkipsNoMatch(t *testing.T) {
	r := newRig(t)
	for _, input := range r.variedLogs() {
		eachQuery(func(name string, q follow.Query) {
			if q.Grep == nil || q.Lines >= 0 {
				return
			}
			got, _ := r.readPieces(q, input)
			all, _ := r.readPieces(follow.Query{Lines: -1, Raw: q.Raw}, input)
			var want []piece
			for i, p := range all {
				p.continued = p.continued && q.Grep.MatchString(all[i-1].line)
				if q.Grep.MatchString(p.line) {
					want = append(want, p)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s of %s:\ngot  %.300v\nwant %.300v", name, input.Log.Name(), got, want)
			}
		})
	}
}

// TestBlocksResume: each block has the cursor of what follows it.
func TestBlocksResume(t *testing.T) {
	r := newRig(t)
	for _, input := range r.variedLogs() {
		want, _ := r.readPieces(follow.Query{Lines: -1, Blocks: true}, input)
		var got []piece
		for {
			reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Blocks: true})
			if err := reading.Set([]follow.Input{input}); err != nil {
				t.Fatal(err)
			}
			e, err := reading.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e == nil {
				break
			}
			for line := range strings.SplitSeq(string(e.Line), "\n") {
				got = append(got, piece{e.Instance, e.Time, e.Stream, line, e.Partial, e.Continued, 0})
			}
			c, err := segment.ParseCursor(e.Cursor.String())
			if err != nil {
				t.Fatal(err)
			}
			input.Resume = &c
			reading.Close()
		}
		for i := range want { // a record may have a line end in its line
			want[i].line = strings.ReplaceAll(want[i].line, "\n", "|")
		}
		text := func(all []piece) (text string) {
			for _, p := range all {
				text += p.line + "|"
			}
			return text
		}
		if text(got) != text(want) {
			t.Errorf("%s in pieces:\ngot  %.300v\nwant %.300v", input.Log.Name(), got, want)
		}
	}
}

// TestFarBehindReadingSkips: a reading that may skip output does so when it is far behind, says how
// much, and goes on with a whole line. It shows all output from before its beginning.
func TestFarBehindReadingSkips(t *testing.T) {
	const lines, size = 20 << 20 / 64, 64
	var output strings.Builder
	for i := range lines {
		fmt.Fprintf(&output, "line %0*d\n", size-6, i)
	}
	for _, format := range []frame.Format{frame.Raw, frame.Text} {
		for _, skip := range []bool{true, false} {
			r := newRig(t)
			p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: format})
			p.log(output.String())
			reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Follow: true, Skip: skip, Blocks: true})
			if err := reading.Set([]follow.Input{{Log: p.Log(Stdout)}}); err != nil {
				t.Fatal(err)
			}
			if before, _ := pieces(t, reading); len(before) != lines {
				t.Errorf("%s, skip %v: %d lines from before the reading, want %d", format, skip, len(before), lines)
			}
			p.log("begun") // of the first line
			all, _ := pieces(t, reading)
			p.log(output.String())
			more, _ := pieces(t, reading)
			all = append(all, more...)
			reading.Close()
			notes, shown := 0, 0
			var missing int64
			for i, e := range all {
				if missing += e.missing; e.missing > 0 {
					notes++
				} else if shown++; i > 0 && !strings.HasPrefix(e.line, "line ") && !strings.HasPrefix(e.line, "begunline") {
					t.Fatalf("%s, skip %v: after the gap comes %q", format, skip, e.line)
				}
			}
			record := int64(size)
			if format == frame.Text {
				record += int64(len(at(0) + " stdout "))
			}
			if skip && (notes != 1 || missing < 16<<20) || !skip && notes != 0 {
				t.Errorf("%s, skip %v: %d notes, %d bytes missing", format, skip, notes, missing)
			}
			if skipped := missing / record; int64(shown)+skipped < lines-1 || int64(shown)+skipped > lines+1 {
				t.Errorf("%s, skip %v: %d lines shown, %d bytes missing, want %d lines in all", format, skip, shown, missing, lines)
			}
		}
	}
}

// TestLiveLinesHaveTimes: raw lines that come while a reading follows have the time at which they
// came, if that is requested, and are in the order of these times among those of other programs.
func TestLiveLinesHaveTimes(t *testing.T) {
	r := newRig(t)
	one, two := r.program(Options{Path: filepath.Join(t.TempDir(), "one.log")}), r.program(Options{Path: filepath.Join(t.TempDir(), "two.log")})
	one.log("before\n")
	for _, q := range []follow.Query{{Times: true}, {Times: true, Blocks: true}, {}} {
		times := q.Times
		q.Lines, q.Follow = 1, true
		reading := follow.NewReading(t.Context(), q)
		if err := reading.Set([]follow.Input{{Log: one.Log(Stdout)}, {Log: two.Log(Stdout)}}); err != nil {
			t.Fatal(err)
		}
		if got, _ := pieces(t, reading); len(got) == 0 || got[0].time != "" {
			t.Errorf("lines from before: %v", got)
		}
		var begun []string
		print := func(p *program, text string) {
			start := time.Now()
			for time.Since(start) < 2*time.Millisecond { // so that times differ
			}
			begun = append(begun, time.Now().UTC().Format(frame.TimeLayout))
			p.log(text)
		}
		print(one, "1\n")
		print(two, "2\n")
		print(one, "3\n")
		print(two, "4\n")
		print(one, "5\nno end")
		got, _ := pieces(t, reading)
		reading.Close()
		if len(got) != 5 {
			t.Fatalf("got %v", got)
		}
		for i, e := range got {
			if e.line != fmt.Sprint(i+1) {
				t.Errorf("line %d is %q", i+1, e.line)
			}
			if !times && e.time != "" || times && (e.time < begun[i] || i < 4 && e.time > begun[i+1]) {
				t.Errorf("line %d came at %q, written after %s", i+1, e.time, begun[i])
			}
		}
		print(one, "\n")
		two.log("\n")
	}
}
