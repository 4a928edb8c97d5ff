package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/segment"
)

// at returns the record time of a second of a test.
func at(second int) string {
	return time.Date(2026, 11, 21, 7, 0, second, 0, time.UTC).Format(frame.TimeLayout)
}

func instant(second int) time.Time { return time.Date(2026, 11, 21, 7, 0, second, 0, time.UTC) }

// logDir makes log files: name to content, with the time of rotation in seconds after @.
func (r *rig) logDir(files map[string]string) (dir string) {
	r.Helper()
	dir = r.TempDir()
	for name, text := range files {
		base, when, rotated := strings.Cut(name, "@")
		path := filepath.Join(dir, base)
		if rotated {
			var second int
			fmt.Sscan(when, &second)
			path = segment.Stamp(instant(second).UnixMicro()).Name(path)
		}
		logstest.WriteFile(r, path, text)
	}
	return dir
}

// newCollector returns a collector of a log file without a writer.
func (r *rig) newCollector(dir, name string, format frame.Format) (c *Collector) {
	r.do(func() {
		c = r.store.NewCollector(r.loop.Root().Child(), name, Options{Program: name, Path: filepath.Join(dir, name), Format: format, Keep: 100})
	})
	return c
}

// all reads all output that exists, as lines: instance, text, + if the line continues.
func all(t testing.TB, q follow.Query, inputs ...follow.Input) string {
	t.Helper()
	r := follow.NewReading(t.Context(), q)
	defer r.Close()
	if err := r.Set(inputs); err != nil {
		t.Fatal(err)
	}
	return rest(t, r)
}

// rest returns what the reading returns until now.
func rest(t testing.TB, r *follow.Reading) string {
	t.Helper()
	var got strings.Builder
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return got.String()
		}
		got.WriteString(shown(e))
	}
}

func shown(e *follow.Entry) string {
	switch {
	case e.IsCursorOnly():
		return ""
	case e.Note != "":
		return fmt.Sprintf("[%d] ", e.MissingBytes)
	case e.Partial:
		return fmt.Sprintf("%s:%s+ ", e.Instance, e.Line)
	}
	return fmt.Sprintf("%s:%s ", e.Instance, e.Line)
}

func texts(seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, "%s stdout line %d\n", at(s), s)
	}
	return b.String()
}

func jsons(run string, seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, `{"time":"%s","program":"j","instance":"j","run":"%s","stream":"stdout","partial":false,"line":"line %d"}`+"\n", at(s), run, s)
	}
	return b.String()
}

func TestReading(t *testing.T) {
	r := newRig(t)
	dir := r.logDir(map[string]string{
		"t@10": texts(1, 3, 5), "t@20": texts(11), "t": texts(21, 23),
		"j@10": jsons("aa", 2, 4), "j": jsons("aa", 22) + jsons("bb", 24, 26),
		"r@12": "old\n", "r": "one\ntwo\nthr",
	})
	if err := os.Chtimes(filepath.Join(dir, "r"), time.Time{}, instant(25)); err != nil {
		t.Fatal(err)
	}
	text, json, raw := r.newCollector(dir, "t", frame.Text), r.newCollector(dir, "j", frame.JSON), r.newCollector(dir, "r", frame.Raw)
	every := []follow.Input{{Log: text.Log(Stdout)}, {Log: json.Log(Stdout)}, {Log: raw.Log(Stdout)}}
	run := func(c *Collector, id string, from, to int) follow.Input {
		s := &follow.Span{ID: id, From: instant(from)}
		if to > 0 {
			s.To = instant(to)
		}
		return follow.Input{Log: c.Log(Stdout), Span: s}
	}
	tests := []struct {
		name   string
		query  follow.Query
		inputs []follow.Input
		want   string
	}{
		{"in the order of their times, raw ones of their files", follow.Query{Lines: -1}, every,
			"t:line 1 j:line 2 t:line 3 j:line 4 t:line 5 t:line 11 r:old t:line 21 j:line 22 t:line 23 j:line 24 r:one r:two r:thr+ j:line 26 "},
		{"the last of each", follow.Query{Lines: 1}, every, "t:line 23 r:thr+ j:line 26 "},
		{"none", follow.Query{Lines: 0}, every, ""},
		{"across files", follow.Query{Lines: 3}, every[:1], "t:line 11 t:line 21 t:line 23 "},
		{"since", follow.Query{Lines: -1, Since: instant(5)}, every,
			"[0] t:line 5 t:line 11 r:old t:line 21 j:line 22 t:line 23 j:line 24 r:one r:two r:thr+ j:line 26 "},
		{"since a time after which nothing came", follow.Query{Lines: -1, Since: instant(27)}, every, ""},
		{"the last ones since", follow.Query{Lines: 2, Since: instant(5)}, every[:1], "t:line 21 t:line 23 "},
		{"that match", follow.Query{Lines: -1, Grep: regexp.MustCompile("^line 2?3$|two")}, every, "t:line 3 t:line 23 r:two "},
		{"the last ones that match", follow.Query{Lines: 2, Grep: regexp.MustCompile("line .?[135]$")}, every[:1], "t:line 21 t:line 23 "},
		{"no more than match", follow.Query{Lines: 9, Grep: regexp.MustCompile("line [135]$")}, every[:1], "t:line 1 t:line 3 t:line 5 "},
		{"a run of json", follow.Query{Lines: -1}, []follow.Input{run(json, "aa", 1, 23)}, "j:line 2 j:line 4 j:line 22 "},
		{"the last line of a run", follow.Query{Lines: 1}, []follow.Input{run(json, "aa", 1, 23)}, "j:line 22 "},
		{"the newest run of json", follow.Query{Lines: -1}, []follow.Input{run(json, "bb", 23, 0)}, "j:line 24 j:line 26 "},
		{"a run of text", follow.Query{Lines: -1}, []follow.Input{run(text, "aa", 3, 21)}, "t:line 3 t:line 5 t:line 11 "},
		{"a run of which only the time is known", follow.Query{Lines: -1}, []follow.Input{run(raw, "aa", 13, 0)}, "[0] r:one r:two r:thr+ "},
		{"records as they stand in the file", follow.Query{Lines: 1, Raw: true}, every[:1], "t:" + at(23) + " stdout line 23 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := all(t, tt.query, tt.inputs...); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestReadingResumes: with a cursor a successor continues at the same place, whatever happened to
// the file.
func TestReadingResumes(t *testing.T) {
	for _, compression := range []segment.Compression{"", segment.Gzip, segment.Zstd} {
		r := newRig(t)
		o := Options{Path: filepath.Join(t.TempDir(), "web.log"), MaxSize: 40, Keep: 1000, Compression: compression}
		p := r.program(o)
		want := ""
		print := func(from, to int) {
			for i := from; i < to; i++ {
				p.log(fmt.Sprintf("line %d\n", i))
				want += fmt.Sprintf("web:line %d ", i)
			}
		}
		print(0, 3)
		got := ""
		var cursor *segment.Cursor
		for n := 3; n < 60; n += n / 3 {
			reading := follow.NewReading(t.Context(), follow.Query{Lines: -1, Follow: true})
			if err := reading.Set([]follow.Input{{Log: r.reader(o).Log(Stdout), Resume: cursor}}); err != nil {
				t.Fatal(err)
			}
			for {
				e, err := reading.Next()
				if err != nil {
					t.Fatal(err)
				}
				if e == nil {
					break
				}
				c, err := segment.ParseCursor(e.Cursor.String())
				if err != nil || c != e.Cursor {
					t.Fatalf("cursor %v became %v, %v", e.Cursor, c, err)
				}
				cursor = &c
				got += shown(e)
				if !e.IsCursorOnly() && len(got)%3 == 0 { // somewhere
					break
				}
			}
			reading.Close()
			print(n, n+n/3)
		}
		got += all(t, follow.Query{Lines: -1}, follow.Input{Log: r.reader(o).Log(Stdout), Resume: cursor})
		logstest.Equal(t, "what was read in pieces, compressed "+string(compression), got, want)
	}
}

// reader returns a collector that does not know what another one has written.
func (r *rig) reader(o Options) (c *Collector) {
	r.poll("rotated files to be compressed", func() bool {
		names, err := filepath.Glob(o.Path + ".*")
		return err == nil && !slices.ContainsFunc(names, func(name string) bool { return !strings.HasSuffix(name, o.Compression.Suffix()) })
	})
	r.do(func() { c = r.store.NewCollector(r.loop.Root().Child(), "web", o) })
	return c
}

// TestReadingLeavesMinFree: a segment that can't be unpacked without reserved space is skipped, and
// that is shown. Newest lines need no unpacking.
func TestReadingLeavesMinFree(t *testing.T) {
	for _, compression := range []segment.Compression{segment.Gzip, segment.Zstd} {
		r := newRig(t)
		o := Options{Path: filepath.Join(t.TempDir(), "web.log"), MaxSize: 20, Keep: 1000, Compression: compression}
		p := r.program(o)
		for i := range 7 {
			p.log(fmt.Sprintf("line %d\n", i)) // two in a segment
		}
		full := o
		full.MinFree = 1 << 60
		const missing = "[14] [14] [14] "
		for query, want := range map[*follow.Query]string{
			{Lines: -1}: missing + "web:line 6 ",
			{Lines: 1}:  "web:line 6 ",
			{Lines: 4}:  "[14] web:line 6 ",
			{Lines: 4, Grep: regexp.MustCompile("line")}:             "[14] web:line 6 ",
			{Lines: -1, Since: time.Now().Add(-time.Hour)}:           missing + "web:line 6 ",
			{Lines: 3, Since: time.Now().Add(-time.Hour), Raw: true}: "[14] web:line 6 ",
		} {
			if got := all(t, *query, follow.Input{Log: r.reader(full).Log(Stdout)}); got != want {
				t.Errorf("%s, %+v: %q, want %q", compression, *query, got, want)
			}
		}
		reading := follow.NewReading(t.Context(), follow.Query{Lines: -1})
		if err := reading.Set([]follow.Input{{Log: r.reader(full).Log(Stdout)}}); err != nil {
			t.Fatal(err)
		}
		if e, err := reading.Next(); err != nil || !strings.Contains(e.Note, "14 bytes can't be shown: unpack ") || !strings.Contains(e.Note, "min_free is 1152921504606846976") {
			t.Errorf("the note is %+v, %v", e, err)
		}
		reading.Close()
		var text bytes.Buffer
		if err := r.reader(full).Follow(t.Context(), -1, false, &text); err != nil || strings.Count(text.String(), "superd: 14 bytes can't be shown: unpack ") != 3 {
			t.Errorf("Follow() = %v, %q", err, text.String())
		}
		r.do(func() { p.SetOptions(full) })
		logstest.Equal(t, "the end of the run", p.tail(), "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\n")
	}
}

func TestResumeWhereFilesAreGone(t *testing.T) {
	r := newRig(t)
	dir := r.logDir(map[string]string{"r@10": "one\n", "r@20": "two\n", "r": "three\n"})
	c := r.newCollector(dir, "r", frame.Raw)
	cursorOf := func(lines int) *segment.Cursor {
		reading := follow.NewReading(t.Context(), follow.Query{Lines: -1})
		defer reading.Close()
		if err := reading.Set([]follow.Input{{Log: c.Log(Stdout)}}); err != nil {
			t.Fatal(err)
		}
		var cursor segment.Cursor
		for range lines {
			e, err := reading.Next()
			if e == nil || err != nil {
				t.Fatal(e, err)
			}
			cursor = e.Cursor
		}
		return &cursor
	}
	first, last := cursorOf(1), cursorOf(3)
	first.Offset-- // within the line
	remove := func(name string) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	remove(segment.Stamp(instant(10).UnixMicro()).Name(filepath.Join(dir, "r")))
	if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: r.newCollector(dir, "r", frame.Raw).Log(Stdout), Resume: first}); got != "[-1] r:two r:three " {
		t.Errorf("after a file that was removed: %s", got)
	}
	remove(filepath.Join(dir, "r"))
	logstest.WriteFile(t, filepath.Join(dir, "other"), "")
	logstest.WriteFile(t, filepath.Join(dir, "r"), "new\n")
	if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: r.newCollector(dir, "r", frame.Raw).Log(Stdout), Resume: last}); got != "[-1] r:new " {
		t.Errorf("after one that was replaced: %s", got)
	}
	logstest.WriteFile(t, filepath.Join(dir, "r"), "")
	last = mustParse(t, fmt.Sprintf("n%s.%s.4", strconv.FormatInt(instant(20).UnixMicro(), 36), strconv.FormatUint(r.inode(filepath.Join(dir, "r")), 36)))
	logstest.WriteFile(t, filepath.Join(dir, "r"), "x\n")
	if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: r.newCollector(dir, "r", frame.Raw).Log(Stdout), Resume: last}); got != "[-1] r:x " {
		t.Errorf("after one that was truncated: %s", got)
	}
}

func (r *rig) inode(path string) uint64 {
	return logstest.Stat(r, path).Ino
}

func TestLongLinesAreReadInParts(t *testing.T) {
	r := newRig(t)
	line := strings.Repeat("x", 3*frame.MaxLine) + "end"
	c := r.newCollector(r.logDir(map[string]string{"r": line + "\nnext\n"}), "r", frame.Raw)
	reading := follow.NewReading(t.Context(), follow.Query{Lines: -1})
	defer reading.Close()
	if err := reading.Set([]follow.Input{{Log: c.Log(Stdout)}}); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for {
		e, err := reading.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		if len(e.Line) > frame.MaxLine {
			t.Errorf("a part of %d bytes", len(e.Line))
		}
		got.Write(e.Line)
		if !e.Partial {
			got.WriteByte('\n')
		}
	}
	logstest.Equal(t, "the parts", got.String(), line+"\nnext\n")
}

// TestPiecesOfALineCountOnce: the pieces of a line count as one line, and show that they continue.
func TestPiecesOfALineCountOnce(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("x", 3*frame.MaxLine)
	record := func(stream, text string) string { return at(1) + " " + stream + " " + text + "\n" }
	dir := r.logDir(map[string]string{
		"r": "first\n" + long + "end\nlast\n",
		"t": record("stdout", "first") + record("stdout+", long[:frame.MaxLine]) + record("stderr+", "x") + record("stdout+", "y") + record("stderr", "end") + record("stdout", "end") + record("stdout", "last"),
	})
	pieces := func(c *Collector, q follow.Query) (got []string) {
		reading := follow.NewReading(t.Context(), q)
		defer reading.Close()
		if err := reading.Set([]follow.Input{{Log: c.Log(Stdout)}}); err != nil {
			t.Fatal(err)
		}
		for {
			e, err := reading.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e == nil {
				return got
			}
			text := fmt.Sprintf("%.1s%d", e.Line, len(e.Line))
			if e.Continued {
				text = "+" + text
			}
			got = append(got, text)
		}
	}
	full := fmt.Sprint(frame.MaxLine)
	raw, labelled := r.newCollector(dir, "r", frame.Raw), r.newCollector(dir, "t", frame.Text)
	tests := []struct {
		name      string
		collector *Collector
		query     follow.Query
		want      []string
	}{
		{"raw", raw, follow.Query{Lines: 2}, []string{"x" + full, "+x" + full, "+x" + full, "+e3", "l4"}},
		{"raw, all", raw, follow.Query{Lines: -1}, []string{"f5", "x" + full, "+x" + full, "+x" + full, "+e3", "l4"}},
		{"raw, of those that match", raw, follow.Query{Lines: 2, Grep: regexp.MustCompile("[xl]")}, []string{"x" + full, "+x" + full, "+x" + full, "l4"}},
		{"raw, pieces that match", raw, follow.Query{Lines: -1, Grep: regexp.MustCompile("end|last")}, []string{"e3", "l4"}},
		{"labelled, one", labelled, follow.Query{Lines: 1}, []string{"l4"}},
		{"labelled, two", labelled, follow.Query{Lines: 2}, []string{"x1", "+e3", "l4"}},
		{"labelled, three", labelled, follow.Query{Lines: 3}, []string{"x" + full, "x1", "+y1", "+e3", "+e3", "l4"}},
		{"labelled, as it stands in the file", labelled, follow.Query{Lines: 2, Raw: true}, []string{"23", "21"}},
	}
	for _, tt := range tests {
		if got := pieces(tt.collector, tt.query); tt.query.Raw && len(got) != len(tt.want) || !tt.query.Raw && !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRunBegins: the start of a run is reported once the run has printed something, and a span
// accepts it.
func TestRunBegins(t *testing.T) {
	r := newRig(t)
	begins := make(chan RunStart, 10)
	r.store.OnFirstOutput(func(b RunStart) { begins <- b })
	path := filepath.Join(t.TempDir(), "web.log")
	logstest.WriteFile(t, path, "of a predecessor\n")
	o := Options{Program: "w", Path: path, MaxSize: 40, Keep: 100, Compression: segment.Gzip}
	p := r.program(o)
	var spans []*follow.Span
	for i, run := range []string{"one", "silent", "two", "three"} {
		r.do(func() { p.BeginRun(run, false) })
		if run != "silent" {
			p.log(fmt.Sprintf("a of %s\nb of %s\n", run, run))
			b := <-begins
			if b.Run != run || b.Instance != "web" || b.Program != "w" {
				t.Errorf("run %d begins as %+v", i, b)
			}
			if n := len(spans); n > 0 {
				spans[n-1].End = &b.At
			}
			spans = append(spans, &follow.Span{ID: run, Start: &b.At})
		}
		r.do(func() { p.EndRun() })
	}
	for _, span := range spans {
		want := fmt.Sprintf("web:a of %s web:b of %s ", span.ID, span.ID)
		if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: r.reader(o).Log(Stdout), Span: span}); got != want {
			t.Errorf("run %s: %s, want %s", span.ID, got, want)
		}
	}
	select {
	case b := <-begins:
		t.Errorf("also reported: %+v", b)
	default:
	}
}

// TestReadingHasFewFilesOpen: a reading has few files open at a time, however many it reads and
// however slowly, and none at its end.
func TestReadingHasFewFilesOpen(t *testing.T) {
	r := newRig(t)
	const collectors, lines = follow.MaxOpen + 36, 1000 // of 80 bytes: more than is read at a time
	files := map[string]string{}
	for i := range collectors {
		var text strings.Builder
		for line := range lines {
			fmt.Fprintf(&text, "%s stdout %d of %d%s\n", at(line), line, i, strings.Repeat(".", 40))
		}
		files[fmt.Sprint(i)] = text.String()
	}
	dir := r.logDir(files)
	var inputs []follow.Input
	for i := range collectors {
		inputs = append(inputs, follow.Input{Log: r.newCollector(dir, fmt.Sprint(i), frame.Text).Log(Stdout)})
	}
	open := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, dir+"/") {
				n++
			}
		}
		return n
	}
	reading := follow.NewReading(t.Context(), follow.Query{Lines: -1})
	defer reading.Close()
	if err := reading.Set(inputs); err != nil {
		t.Fatal(err)
	}
	most := 0
	for n := range collectors * lines {
		e, err := reading.Next()
		if err != nil || e == nil {
			t.Fatalf("entry %d: %v, %v", n, e, err)
		}
		if want := fmt.Sprintf("%d of %d", n/collectors, n%collectors); !strings.HasPrefix(string(e.Line), want+".") {
			t.Fatalf("entry %d: %q, want %s", n, e.Line, want)
		}
		if n%10_000 == 0 {
			most = max(most, open())
		}
	}
	if most == 0 || most > follow.MaxOpen {
		t.Errorf("%d files were open at a time, want 1 to %d", most, follow.MaxOpen)
	}
	if e, err := reading.Next(); e != nil || err != nil || open() > 0 {
		t.Errorf("at the end: %v, %v, %d files are open", e, err, open())
	}
}

// BenchmarkReadingOfADirectory: the time to begin reading the logs of many programs in one
// directory is linear in their number, not quadratic.
func BenchmarkReadingOfADirectory(b *testing.B) {
	for _, programs := range []int{500, 2000} {
		b.Run(fmt.Sprint(programs), func(b *testing.B) {
			r := newRig(b)
			dir := b.TempDir()
			for i := range programs {
				for k := range 3 {
					if err := os.WriteFile(segment.Stamp(k+1).Name(filepath.Join(dir, fmt.Sprint(i))), nil, 0o600); err != nil {
						b.Fatal(err)
					}
				}
			}
			for b.Loop() {
				b.StopTimer()
				var inputs []follow.Input
				for i := range programs {
					inputs = append(inputs, follow.Input{Log: r.newCollector(dir, fmt.Sprint(i), frame.Raw).Log(Stdout)})
				}
				reading := follow.NewReading(b.Context(), follow.Query{Lines: 1})
				b.StartTimer()
				if err := reading.Set(inputs); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				reading.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*programs), "ns/program")
		})
	}
}
