package frame

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"superd/logs/frame/frametest"
)

// wantLine is what a sink should get for a span of a line.
type wantLine struct {
	line     string
	priority int
	partial  bool
}

// expectedLines computes the wantLines of text. Only the start of a line may have a priority
// prefix, which applies to all its pieces.
func expectedLines(text []byte, end Ending, defaultPriority int) (all []wantLine) {
	priority, continues := defaultPriority, false
	for used := 0; used < len(text); {
		s, ok := Next(text[used:], end)
		if !ok {
			break
		}
		line := string(text[used : used+s.line])
		if !continues {
			priority = defaultPriority
		}
		if continues = s.partial; !(used > 0 && text[used-1] != '\n') && len(line) > 2 && line[0] == '<' && line[2] == '>' && line[1] >= '0' && line[1] <= '7' {
			priority, line = int(line[1]-'0'), line[3:]
		}
		all = append(all, wantLine{line, priority, s.partial})
		used += s.taken
	}
	return all
}

// encoded returns the messages that the recorder makes of text, in as many batches as it takes.
func encoded(t *testing.T, h Header, stream string, text []byte, end Ending) (all [][]byte) {
	var r Recorder
	r.Reset(h, stream, time.Unix(1e9, 0))
	dst := make([]byte, 0, 64<<10)
	for used := 0; used < len(text); {
		records, n := r.Append(dst[:0], text[used:], end)
		if n == 0 {
			break
		}
		count := len(all)
		Messages(records, func(message []byte, _ int) bool {
			all = append(all, bytes.Clone(message))
			return true
		})
		if got := TakenBy(Count(h.Format, records), text[used:], end); got != n || len(all)-count != Count(h.Format, records) {
			t.Fatalf("%d messages are of %d bytes, the recorder took %d", len(all)-count, got, n)
		}
		used += n
	}
	return all
}

func addTexts(f *testing.F) {
	for _, text := range []string{"one\ntwo\n", "<3>bad\n<9>as it is\n<7>\n", strings.Repeat("y", MaxLine) + "<0>" + strings.Repeat("x", MaxLine) + "\n<2>" + strings.Repeat("x", MaxLine) + "\nz\n", "\x00\xff]\"\\=\n\n", "no end", "<3", strings.Repeat("x", 40_000) + "\n", "MESSAGE=a\n] \n"} {
		f.Add([]byte(text), "web@1", "0123", true)
		f.Add([]byte(text), `a"]\`, "", false)
	}
}

// FuzzJournal decodes the entries made of any output.
func FuzzJournal(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, text []byte, instance, run string, ends bool) {
		if strings.Contains(instance+run, "\n") {
			t.Skip("no name has a newline")
		}
		h := Header{
			Format: Journal, Program: "web", Identifier: "web", Facility: 3,
			Instance: instance, Run: run,
		}
		end := WritePartial
		if ends {
			end = LineComplete
		}
		want := expectedLines(text, end, priorityInfo)
		got := encoded(t, h, Stdout, text, end)
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d", len(got), len(want))
		}
		for i, entry := range got {
			fields, err := frametest.Journal(entry)
			if err != nil {
				t.Fatalf("entry %q: %v", entry, err)
			}
			w := map[string]string{"MESSAGE": want[i].line, "PRIORITY": strconv.Itoa(want[i].priority), "SYSLOG_IDENTIFIER": "web", "SYSLOG_FACILITY": "3",
				"SUPERD_PROGRAM": "web", "SUPERD_INSTANCE": instance, "SUPERD_INVOCATION_ID": run, "SUPERD_STREAM": Stdout, "SUPERD_PARTIAL": ""}
			if want[i].partial {
				w["SUPERD_PARTIAL"] = "1"
			}
			for name, value := range w {
				if fields[name] != value {
					t.Fatalf("entry %d: %s is %q, want %q", i, name, fields[name], value)
				}
			}
		}
	})
}

// FuzzSyslog decodes the messages made of any output.
func FuzzSyslog(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, text []byte, instance, run string, ends bool) {
		h := Header{
			Format: Syslog, Program: "web", Identifier: cmp.Or(instance, "web"), Facility: 16,
			Instance: instance, Run: run, Host: run,
		}
		end := WritePartial
		if ends {
			end = LineComplete
		}
		want := expectedLines(text, end, priorityError)
		got := encoded(t, h, Stderr, text, end)
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i, message := range got {
			m, err := frametest.Syslog(message)
			if err != nil {
				t.Fatalf("message %q: %v", message, err)
			}
			if m.After != want[i].line || m.Priority != want[i].priority || m.Facility != 16 || m.Instance != instance || m.Run != run || m.ID != Stderr ||
				(m.Partial == "1") != want[i].partial || !m.At.Equal(time.Unix(1e9, 0)) || len(m.App) > 48 || len(m.Host) > 255 {
				t.Fatalf("message %d is %+v, want %+v", i, m, want[i])
			}
		}
	})
}

// FuzzFraming: the lines of an output are the same however it is cut into pieces. An incomplete
// Line is repeated in the next piece.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint16(3))
	f.Add([]byte(strings.Repeat("é", 20_000)+"\nx\n"), uint16(1000))
	f.Add([]byte("a\x00\xff\n<3>b\n"), uint16(0))
	f.Add([]byte("<3>"+strings.Repeat("x", MaxLine)+"\n<4>y\n"), uint16(MaxLine+2))
	f.Fuzz(func(t *testing.T, text []byte, piece16 uint16) {
		for _, format := range []Format{Text, JSON, Journal, Syslog} {
			piece := int(piece16) + 1
			var r Recorder
			h := Header{Format: format, Program: "web", Identifier: "web", Instance: "web", Run: "run"}
			r.Reset(h, Stdout, time.Unix(1e9, 0))
			dst := make([]byte, 0, BufferBytes)
			all := func(pieces bool) (records []byte) {
				var pending []byte
				rest := text
				for len(rest) > 0 {
					n := len(rest)
					if pieces {
						n = min(n, piece)
					}
					pending = append(pending, rest[:n]...)
					rest = rest[n:]
					end := AwaitMore
					if len(rest) == 0 {
						end = LineComplete
					}
					for {
						made, used := r.Append(dst[:0], pending, end)
						if used == 0 {
							break
						}
						records = append(records, made...)
						pending = pending[used:]
					}
				}
				if len(pending) > 0 {
					t.Fatalf("%d bytes are left", len(pending))
				}
				return records
			}
			if whole, cut := all(false), all(true); !bytes.Equal(whole, cut) {
				t.Fatalf("format %s: in pieces of %d bytes it is %.300q, else %.300q", format, piece, cut, whole)
			}
			if utf8.Valid(text) && format == JSON && !utf8.Valid(all(true)) {
				t.Fatal("a character is torn")
			}
		}
	})
}
