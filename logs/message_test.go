package logs

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// decodeJournal reads an entry as journald does. Source: systemd.io/JOURNAL_NATIVE_PROTOCOL.
func decodeJournal(entry []byte) (map[string]string, error) {
	fields := map[string]string{}
	for len(entry) > 0 {
		line, rest, ok := bytes.Cut(entry, newline)
		if !ok {
			return nil, errors.New("a field without its end")
		}
		name, value, ok := bytes.Cut(line, []byte{'='})
		if !ok {
			return nil, fmt.Errorf("a field with a length of its own: %q", line)
		}
		if _, twice := fields[string(name)]; twice {
			return nil, fmt.Errorf("%s comes twice", name)
		}
		fields[string(name)] = string(value)
		entry = rest
	}
	return fields, nil
}

// A syslogMessage is one of RFC 5424.
type syslogMessage struct {
	facility, priority            int
	host, app, id                 string
	at                            time.Time
	instance, run, partial, after string
}

func decodeSyslog(message []byte) (m syslogMessage, err error) {
	text := string(message)
	pri, rest, ok := strings.Cut(text, ">")
	number, err := strconv.Atoi(strings.TrimPrefix(pri, "<"))
	if !ok || err != nil || number > 191 || number < 0 {
		return m, fmt.Errorf("priority %q", pri)
	}
	m.facility, m.priority = number/8, number%8
	fields := strings.SplitN(rest, " ", 7)
	if len(fields) < 7 || fields[0] != "1" || fields[4] != "-" {
		return m, fmt.Errorf("header %q", rest)
	}
	if m.at, err = time.Parse(time.RFC3339Nano, fields[1]); err != nil {
		return m, err
	}
	m.host, m.app, m.id = fields[2], fields[3], fields[5]
	for _, name := range []string{m.host, m.app, m.id} {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return m, fmt.Errorf("name %q", name)
		}
	}
	data, ok := strings.CutPrefix(fields[6], "[superd@32473")
	if !ok {
		return m, fmt.Errorf("structured data %q", fields[6])
	}
	for strings.HasPrefix(data, " ") {
		name, rest, _ := strings.Cut(data[1:], `="`)
		var value []byte
		for i := 0; ; i++ {
			if i >= len(rest) {
				return m, errors.New("a parameter without its end")
			}
			if rest[i] == '"' {
				data = rest[i+1:]
				break
			}
			if rest[i] == '\\' {
				i++
			}
			value = append(value, rest[i])
		}
		switch name {
		case "instance":
			m.instance = string(value)
		case "run":
			m.run = string(value)
		case "partial":
			m.partial = string(value)
		}
	}
	if m.after, ok = strings.CutPrefix(data, "] "); !ok {
		return m, fmt.Errorf("after the structured data %q", data)
	}
	return m, nil
}

// wantLine is what a sink should get for a span of a line.
type wantLine struct {
	line     string
	priority int
	partial  bool
}

// expectedLines computes the wantLines of text. Only the start of a line may have a priority
// prefix, which applies to all its pieces.
func expectedLines(text []byte, end ending, defaultPriority int) (all []wantLine) {
	priority, continues := defaultPriority, false
	for used := 0; used < len(text); {
		s, ok := nextRecordSpan(text[used:], end)
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
func encoded(t *testing.T, o *setting, instance, run, stream string, text []byte, end ending) (all [][]byte) {
	var r recorder
	r.reset(o, instance, run, stream, time.Unix(1e9, 0))
	dst := make([]byte, 0, 64<<10)
	for used := 0; used < len(text); {
		records, n := r.append(dst[:0], text[used:], end)
		if n == 0 {
			break
		}
		count := len(all)
		messages(records, func(message []byte, _ int) bool {
			all = append(all, bytes.Clone(message))
			return true
		})
		if got := takenBy(recordsIn(o.Format, records), text[used:], end); got != n || len(all)-count != recordsIn(o.Format, records) {
			t.Fatalf("%d messages are of %d bytes, the recorder took %d", len(all)-count, got, n)
		}
		used += n
	}
	return all
}

func addTexts(f *testing.F) {
	for _, text := range []string{"one\ntwo\n", "<3>bad\n<9>as it is\n<7>\n", strings.Repeat("y", maxRecord) + "<0>" + strings.Repeat("x", maxRecord) + "\n<2>" + strings.Repeat("x", maxRecord) + "\nz\n", "\x00\xff]\"\\=\n\n", "no end", "<3", strings.Repeat("x", 40_000) + "\n", "MESSAGE=a\n] \n"} {
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
		o := Options{Program: "web", Sink: Journald, Facility: 3}.complete()
		end := writePartial
		if ends {
			end = lineComplete
		}
		want := expectedLines(text, end, priorityInfo)
		got := encoded(t, new(o.setting()), instance, run, stdout, text, end)
		if len(got) != len(want) {
			t.Fatalf("%d entries, want %d", len(got), len(want))
		}
		for i, entry := range got {
			fields, err := decodeJournal(entry)
			if err != nil {
				t.Fatalf("entry %q: %v", entry, err)
			}
			w := map[string]string{"MESSAGE": want[i].line, "PRIORITY": strconv.Itoa(want[i].priority), "SYSLOG_IDENTIFIER": "web", "SYSLOG_FACILITY": "3",
				"SUPERD_PROGRAM": "web", "SUPERD_INSTANCE": instance, "SUPERD_INVOCATION_ID": run, "SUPERD_STREAM": stdout, "SUPERD_PARTIAL": ""}
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
		o := Options{Program: "web", Sink: Syslog, Facility: 16, Identifier: instance}.complete()
		o.host = run
		end := writePartial
		if ends {
			end = lineComplete
		}
		want := expectedLines(text, end, priorityError)
		got := encoded(t, new(o.setting()), instance, run, stderr, text, end)
		if len(got) != len(want) {
			t.Fatalf("%d messages, want %d", len(got), len(want))
		}
		for i, message := range got {
			m, err := decodeSyslog(message)
			if err != nil {
				t.Fatalf("message %q: %v", message, err)
			}
			if m.after != want[i].line || m.priority != want[i].priority || m.facility != 16 || m.instance != instance || m.run != run || m.id != stderr ||
				(m.partial == "1") != want[i].partial || !m.at.Equal(time.Unix(1e9, 0)) || len(m.app) > 48 || len(m.host) > 255 {
				t.Fatalf("message %d is %+v, want %+v", i, m, want[i])
			}
		}
	})
}

// FuzzFraming: the lines of an output are the same however it is cut into pieces. An incomplete
// line is repeated in the next piece.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint16(3))
	f.Add([]byte(strings.Repeat("é", 20_000)+"\nx\n"), uint16(1000))
	f.Add([]byte("a\x00\xff\n<3>b\n"), uint16(0))
	f.Add([]byte("<3>"+strings.Repeat("x", maxRecord)+"\n<4>y\n"), uint16(maxRecord+2))
	f.Fuzz(func(t *testing.T, text []byte, piece16 uint16) {
		for _, o := range []Options{{Format: Text}, {Format: JSON}, {Program: "web", Sink: Journald}, {Program: "web", Sink: Syslog}} {
			o := o.complete()
			piece := int(piece16) + 1
			var r recorder
			r.reset(new(o.setting()), "web", "run", stdout, time.Unix(1e9, 0))
			dst := make([]byte, 0, recordBytes)
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
					end := awaitMore
					if len(rest) == 0 {
						end = lineComplete
					}
					for {
						made, used := r.append(dst[:0], pending, end)
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
				t.Fatalf("format %s: in pieces of %d bytes it is %.300q, else %.300q", o.Format, piece, cut, whole)
			}
			if utf8.Valid(text) && o.Format == JSON && !utf8.Valid(all(true)) {
				t.Fatal("a character is torn")
			}
		}
	})
}
