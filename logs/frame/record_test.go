package frame

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"superd/logs/pipe"
)

var recordAt = time.Date(2026, 11, 21, 8, 20, 45, 123456789, time.FixedZone("", 3600))

// records returns the records that a recorder makes of text, given to it in pieces as a pipe would
// show them, and the bytes that it did not use.
func records(format Format, text []byte, end Ending, pieces func() int) (made []byte, rest []byte) {
	var r Recorder
	r.Reset(Header{Format: format, Program: "web", Instance: "web@2", Run: "run-1"}, Stdout, recordAt)
	seen := 0 // bytes in sight
	for seen < len(text) || len(text) > 0 {
		last := AwaitMore
		if seen = min(seen+pieces(), len(text), pipe.ChunkBytes); seen == len(text) {
			last = end
		}
		out, used := r.Append(make([]byte, 0, 2*maxEscaped*MaxLine), text[:seen], last)
		made = append(made, out...)
		text = text[used:]
		if seen -= used; used == 0 && seen == len(text) {
			break
		}
	}
	return made, text
}

func whole() int { return 1 << 30 }

func TestRecords(t *testing.T) {
	long := strings.Repeat("x", MaxLine-1)
	tests := []struct {
		name, text string
		end        Ending
		want       []Record // Partial and Line are compared
		rest       string
	}{
		{"whole lines", "one\n\ntwo\n", AwaitMore, []Record{{Line: "one"}, {Line: ""}, {Line: "two"}}, ""},
		{"a line that is not whole stays", "one\ntw", AwaitMore, []Record{{Line: "one"}}, "tw"},
		{"a line that has to go on", "tw", WritePartial, []Record{{Line: "tw", Partial: true}}, ""},
		{"a line that is complete without a newline", "tw", LineComplete, []Record{{Line: "tw"}}, ""},
		{"nothing has to go on", "", WritePartial, nil, ""},
		{"a longest line", long + "y\n", AwaitMore, []Record{{Line: long + "y"}}, ""},
		{"a longer line", long + "yz\n", AwaitMore, []Record{{Line: long + "y", Partial: true}, {Line: "z"}}, ""},
		{"a longer line is not cut in a character", long + "é\n", AwaitMore, []Record{{Line: long, Partial: true}, {Line: "é"}}, ""},
		{"no character is cut where the line has to go on", "aé"[:2], WritePartial, []Record{{Line: "a", Partial: true}, {Line: "\ufffd", Partial: true}}, ""},
		{"escapes", "\"\\/\t\r\x00\x1b[0m\x7f<\u2028>\n", AwaitMore, []Record{{Line: "\"\\/\t\r\x00\x1b[0m\x7f<\u2028>"}}, ""},
		{"what is not UTF-8", "a\xffb\xc3(\xed\xa0\x80é\n", AwaitMore, []Record{{Line: "a\ufffdb\ufffd(\ufffd\ufffd\ufffdé"}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			made, rest := records(JSON, []byte(tt.text), tt.end, whole)
			if string(rest) != tt.rest {
				t.Errorf("left %q, want %q", rest, tt.rest)
			}
			lines := bytes.SplitAfter(made, newline)
			if lines = lines[:len(lines)-1]; len(lines) != len(tt.want) {
				t.Fatalf("%d records, want %d: %q", len(lines), len(tt.want), made)
			}
			for i, want := range tt.want {
				want.Time, want.Program, want.Instance, want.Run, want.Stream = "2026-11-21T07:20:45.123456Z", "web", "web@2", "run-1", "stdout"
				var got Record
				decoder := json.NewDecoder(bytes.NewReader(lines[i]))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(&got); err != nil || got != want || !utf8.Valid(lines[i]) {
					t.Errorf("record %d = %.200q, want %.200v, valid JSON (%v)", i, lines[i], want, err)
				}
				if got := Line(JSON, lines[i]); string(got) != want.Line {
					t.Errorf("lineIn(record %d) = %.80q, want %.80q", i, got, want.Line)
				}
			}
		})
	}
}

// TestJSONRecord: programs of users read these keys, which docs/compatibility.md promises.
func TestJSONRecord(t *testing.T) {
	made, _ := records(JSON, []byte("one \"line\"\nhalf"), WritePartial, whole)
	const begin = `{"time":"2026-11-21T07:20:45.123456Z","program":"web","instance":"web@2","run":"run-1","stream":"stdout",`
	equalText(t, "records", string(made), begin+`"partial":false,"line":"one \"line\""}`+"\n"+begin+`"partial":true,"line":"half"}`+"\n")
}

// A byte that does not stand for itself is found wherever it is, whatever follows it.
func TestPlain(t *testing.T) {
	for size := range 80 {
		s := bytes.Repeat([]byte{'~'}, size)
		if got := plain(s); got != size {
			t.Errorf("plain(%q) = %d, want %d", s, got, size)
		}
		for at := range s {
			for b := range 256 {
				s[at] = byte(b)
				want := size
				if b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
					want = at
				}
				if got := plain(s); got != want {
					t.Fatalf("plain(%q) = %d, want %d", s, got, want)
				}
			}
			s[at] = ' '
		}
	}
}

func TestTextRecords(t *testing.T) {
	made, _ := records(Text, []byte("one line\n\n\xff\x00\x1b \nhalf"), WritePartial, whole)
	const at = "2026-11-21T07:20:45.123456Z stdout"
	equalText(t, "records", string(made), at+" one line\n"+at+" \n"+at+" \xff\x00\x1b \n"+at+"+ half\n")
	for record, want := range map[string]string{at + " one line": "one line", at + "+ half": "half", at + " ": ""} {
		if got := Line(Text, []byte(record)); string(got) != want {
			t.Errorf("lineIn(%q) = %q, want %q", record, got, want)
		}
	}
	for _, other := range []string{"not a record", "", "a b c", "2026-11-21 10:00:00 up"} {
		if got := Line(Text, []byte(other)); string(got) != other {
			t.Errorf("lineIn(%q) = %q, want it as it is", other, got)
		}
	}
}

func TestBeginsRecord(t *testing.T) {
	for _, format := range []Format{Text, JSON} {
		made, _ := records(format, []byte("some line\n"), AwaitMore, whole)
		for n := range len(made) {
			may, sure := Begins(format, made[:n])
			if _, shorter := Begins(format, made[:max(n-1, 0)]); !may || shorter && !sure {
				t.Errorf("beginsRecord(%s, %q) = %t, %t", format, made[:n], may, sure)
			}
		}
		if _, sure := Begins(format, made); !sure {
			t.Errorf("beginsRecord(%s, %q) = true, false", format, made)
		}
	}
	for _, other := range []string{
		"x", "{}", `{"time":"soon"}`, "2026-11-21 10:00:00", "20:26", "2026-11-21T07:00:04.000000Z  INFO", "2026-11-21T07:00:04.000000Z up",
		`{"time":"2026-11-21T07:00:04.000000Z","level":"info"`,
	} {
		for _, format := range []Format{Text, JSON} {
			if may, sure := Begins(format, []byte(other)); may || sure {
				t.Errorf("beginsRecord(%s, %q) = %t, %t", format, other, may, sure)
			}
		}
	}
}

// FuzzRecords passes any output in pieces of any size: the lines are always the same, and JSON is
// always valid.
func FuzzRecords(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint16(3), true)
	f.Add([]byte("\"\\\x00\x1b\xff\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n"), uint16(1), true)
	f.Add(bytes.Repeat([]byte("0123456789abcdé"), 3000), uint16(9999), false)
	f.Add(bytes.Repeat([]byte("\x01"), 40_000), uint16(65535), true)
	f.Fuzz(func(t *testing.T, text []byte, piece uint16, complete bool) {
		end := WritePartial
		if complete {
			end = LineComplete
		}
		pieces := func() int { return int(piece) + 1 }
		var want string
		for line := range bytes.Lines(text) {
			want += string(bytes.TrimSuffix(line, newline)) + "\n"
		}
		if !complete && len(text) > 0 && text[len(text)-1] != '\n' {
			want = strings.TrimSuffix(want, "\n")
		}

		made, rest := records(Text, text, end, pieces)
		if len(rest) > 0 {
			t.Fatalf("%d bytes left", len(rest))
		}
		var got strings.Builder
		for record := range bytes.Lines(made) {
			at, line, _ := bytes.Cut(record, []byte(" std"))
			if !isRecordTime(at) {
				t.Fatalf("record begins with %q", at)
			}
			if partial, ok := bytes.CutPrefix(line, []byte("out+ ")); ok {
				got.Write(bytes.TrimSuffix(partial, newline))
			} else {
				got.Write(bytes.TrimPrefix(line, []byte("out ")))
			}
		}
		equalText(t, "lines of text records joined", got.String(), want)

		made, _ = records(JSON, text, end, pieces)
		got.Reset()
		for record := range bytes.Lines(made) {
			var r Record
			if err := json.Unmarshal(record, &r); err != nil || !utf8.Valid(record) {
				t.Fatalf("record %.200q: %v", record, err)
			}
			got.WriteString(r.Line)
			if !r.Partial {
				got.WriteByte('\n')
			}
		}
		if utf8.Valid(text) {
			equalText(t, "lines of JSON records joined", got.String(), want)
		}
	})
}

// equalText compares texts that may be long.
func equalText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %.300q, want %.300q", what, got, want)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	for _, bm := range []struct{ name, line string }{
		{"plain", strings.Repeat("x", 99)},
		{"object", `{"level":"INFO","msg":"request","method":"GET","path":"/api/items/4711","status":200,"s":0.0012}`},
		{"German", strings.Repeat("Größe überprüft für süße Bären ", 3)},
		{"Russian", strings.Repeat("Привет мир ", 5)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			line, dst := []byte(bm.line), make([]byte, 0, 1<<10)
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				dst = AppendJSON(dst[:0], line)
			}
		})
	}
}
