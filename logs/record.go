package logs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Format is how output is written to its file.
type Format string

// The formats. A record is a line of the file; a line of output that is longer than 16 KiB is in several ones, all but the
// last of which say that it goes on.
const (
	Raw    Format = "raw"    // byte for byte
	Direct Format = "direct" // as raw, but the program writes into the file itself, and nobody rotates it
	Text   Format = "text"   // records: time, stream, line, separated by blanks; the stream of a line that goes on ends in +
	JSON   Format = "json"   // records: objects as in [Record]
)

// records reports whether the file holds records.
func (f Format) records() bool { return f == Text || f == JSON }

// A Record is what the format json writes for a line.
type Record struct {
	Time     string `json:"time"` // when superd read it: RFC 3339 with microseconds, UTC
	Program  string `json:"program"`
	Instance string `json:"instance"`
	Run      string `json:"run"`     // the SUPERD_INVOCATION_ID of the run
	Stream   string `json:"stream"`  // stdout; stderr; superd for a gap
	Partial  bool   `json:"partial"` // the line goes on in the next record of the stream
	Line     string `json:"line"`    // what is not UTF-8 is U+FFFD
}

// The names of streams in records.
const (
	stdout = "stdout"
	stderr = "stderr"
)

const (
	maxRecord   = 16 << 10  // how much of a line goes into one record
	recordBytes = 256 << 10 // of records written at a time; the longest one is less than half of this
)

// recordTime makes times that sort as text does.
const recordTime = "2006-01-02T15:04:05.000000Z"

// An ending says what the end of the bytes in sight is, if it is not a line's end.
type ending uint8

const (
	awaited ending = iota // more of the line will come
	goesOn                // as much, but what there is has to be written now
	ended                 // the line is complete without a newline
)

// A span is what goes into one record.
type span struct {
	line    int  // bytes of the line
	taken   int  // of these and the newline
	partial bool // the line goes on in the next one
}

// nextSpan returns the first span of text, if it is there in whole.
func nextSpan(text []byte, end ending) (s span, ok bool) {
	if n := bytes.IndexByte(text[:min(len(text), maxRecord+1)], '\n'); n >= 0 {
		return span{n, n + 1, false}, true
	}
	switch n := wholeRunes(text[:min(len(text), maxRecord)]); {
	case len(text) > maxRecord || end == goesOn && len(text) > 0:
		return span{n, n, true}, true
	case end == ended && len(text) > 0:
		return span{len(text), len(text), false}, true
	}
	return span{}, false
}

// wholeRunes returns how long text is without a character at its end that is cut; all of it, if it is nothing else.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i > 0 && i > len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// takenFor returns how many bytes of text went into its first records.
func takenFor(records int, text []byte, end ending) (taken int) {
	for ; records > 0; records-- {
		s, _ := nextSpan(text[taken:], end)
		taken += s.taken
	}
	return taken
}

// A recorder makes records of lines.
type recorder struct {
	format      Format
	usual       int // priority of a line that doesn't tell one, and
	facility    int // of messages
	line        openLine
	whole, part []byte // what a record begins with, if the line is complete in it and if it is not
}

// A recordBench is where records are made.
type recordBench struct {
	recorder recorder
	records  [recordBytes]byte
}

// at has the records that follow be of that time, stream and run.
func (r *recorder) at(o *setting, instance, run, stream string, now time.Time) {
	r.format, r.usual, r.facility, r.line = o.Format, usualPriority(stream), o.Facility, atBeginning
	r.whole = r.begin(r.whole[:0], o, instance, run, stream, now, false)
	r.part = r.begin(r.part[:0], o, instance, run, stream, now, true)
}

func (r *recorder) begin(dst []byte, o *setting, instance, run, stream string, now time.Time, partial bool) []byte {
	switch r.format {
	case journalFormat:
		return r.beginJournal(dst, o, instance, run, stream, partial)
	case syslogFormat:
		return r.beginSyslog(dst, o, instance, run, stream, now, partial)
	case JSON:
	default:
		dst = now.UTC().AppendFormat(dst, recordTime)
		if o.Sink == OwnStdout || o.Sink == Command { // where the lines of several instances are
			dst = append(append(dst, ' '), instance...)
		}
		dst = append(append(dst, ' '), stream...)
		if partial {
			dst = append(dst, '+')
		}
		return append(dst, ' ')
	}
	dst = append(dst, `{"time":"`...)
	dst = now.UTC().AppendFormat(dst, recordTime)
	for _, field := range [...]struct{ before, value string }{
		{`","program":"`, o.Program}, {`","instance":"`, instance}, {`","run":"`, run}, {`","stream":"`, stream},
	} {
		dst = append(dst, field.before...)
		dst = appendJSON(dst, []byte(field.value))
	}
	if partial {
		return append(dst, `","partial":true,"line":"`...)
	}
	return append(dst, `","partial":false,"line":"`...)
}

// append appends records of what is in text to dst, as many as its capacity allows, and returns of how much of it.
func (r *recorder) append(dst, text []byte, end ending) (records []byte, used int) {
	for used < len(text) {
		s, ok := nextSpan(text[used:], end)
		if !ok {
			break
		}
		line := text[used : used+s.line]
		head, most := r.whole, s.line
		if s.partial {
			head = r.part
		}
		if r.format == JSON {
			most *= maxEscaped
		}
		if len(dst) > 0 && cap(dst)-len(dst) < len(head)+most+moreOfMessage {
			break
		}
		switch r.format {
		case journalFormat, syslogFormat:
			dst = r.appendMessage(dst, head, line, s.partial)
		case JSON:
			dst = appendJSON(append(dst, head...), line)
			dst = append(dst, "\"}\n"...)
		default:
			dst = append(append(dst, head...), line...)
			dst = append(dst, '\n')
		}
		used += s.taken
	}
	return dst, used
}

// maxEscaped is how many bytes one byte becomes at most in a JSON string.
const maxEscaped = len(`\u0000`)

// AppendJSON appends the entry as an object on a line, as docs/api.md describes it. name tells captures apart, for the cursor.
func (e *Entry) AppendJSON(dst []byte, name string) []byte {
	dst = append(dst, '{')
	text := func(key, value string) {
		dst = append(append(append(dst, '"'), key...), `":"`...)
		dst = append(appendJSON(dst, []byte(value)), `",`...)
	}
	known := func(key, value string) {
		if value != "" {
			text(key, value)
		} else {
			dst = append(append(append(dst, '"'), key...), `":null,`...)
		}
	}
	if !e.place {
		known("time", e.Time)
		text("program", e.Program)
	}
	text("instance", e.Instance)
	switch {
	case e.place:
	case e.Note != "":
		text("note", e.Note)
		if e.Lost > 0 {
			dst = append(strconv.AppendInt(append(dst, `"lost_bytes":`...), e.Lost, 10), ',')
		}
	default:
		known("run", e.Run)
		known("stream", e.Stream)
		dst = append(strconv.AppendBool(append(dst, `"partial":`...), e.Partial), ',')
		if e.GoesOn {
			dst = append(dst, `"continued":true,`...)
		}
		dst = append(dst, `"line":"`...)
		dst = append(appendJSON(dst, e.Line), `",`...)
		if !utf8.Valid(e.Line) {
			dst = append(base64.StdEncoding.AppendEncode(append(dst, `"bytes":"`...), e.Line), `",`...)
		}
	}
	dst = append(dst, `"cursor":"`...)
	dst = append(append(appendJSON(dst, []byte(name)), ':'), e.Cursor.String()...)
	return append(dst, "\"}\n"...)
}

// appendJSON appends s as it stands in a JSON string, without its quotes. What is not UTF-8 becomes U+FFFD.
func appendJSON(dst, s []byte) []byte {
	done := 0
	for i := plain(s); i < len(s); i += plain(s[i:]) {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[done:i]...), `\ufffd`...)
				done = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[done:i]...)
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&0xf])
		}
		i++
		done = i
	}
	return append(dst, s[done:]...)
}

// plain returns how many bytes s begins with that stand in a JSON string as they are, each a character. It looks at eight at a time:
// the top bit of each byte of the masks tells.
//
// Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks by Sean Eron Anderson.
func plain(s []byte) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, backslash := w^each*'"', w^each*'\\'
		if (w|(w-each*' ')|(quote-each)|(backslash-each))&top != 0 {
			break // it is one of these eight: a borrow comes only from one that is meant
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// lineIn returns the line that a record holds; a line of another format as it is.
func lineIn(format Format, record []byte) []byte {
	line, _ := partIn(format, record)
	return line
}

// partIn is lineIn that also tells whether the line goes on in the next record.
func partIn(format Format, record []byte) (line []byte, partial bool) {
	switch format {
	case Text:
		if line, partial, ok := textLine(record); ok {
			return line, partial
		}
	case JSON:
		var r Record
		if json.Unmarshal(record, &r) == nil && r.Time != "" {
			return []byte(r.Line), r.Partial
		}
	}
	return record, false
}

// linesIn returns the lines that records hold. cut tells that the first record has lost its beginning.
func linesIn(format Format, records []byte, cut bool) []byte {
	if cut {
		_, records, _ = bytes.Cut(records, newline)
	}
	var lines []byte
	for record := range bytes.Lines(records) {
		lines = append(lines, lineIn(format, bytes.TrimSuffix(record, newline))...)
		lines = append(lines, '\n')
	}
	return lines
}

func textLine(record []byte) (line []byte, partial, ok bool) {
	at, rest, _ := bytes.Cut(record, []byte{' '})
	stream, line, ok := bytes.Cut(rest, []byte{' '})
	return line, bytes.HasSuffix(stream, []byte{'+'}), ok && len(at) == len(recordTime) && isRecordTime(at)
}

// isRecordTime reports whether text is the time of a record, or begins like one where it is shorter.
func isRecordTime(text []byte) bool {
	for i, b := range text {
		if i == len(recordTime) {
			return false
		}
		if want := recordTime[i]; want >= '0' && want <= '9' {
			if b < '0' || b > '9' {
				return false
			}
		} else if b != want {
			return false
		}
	}
	return true
}

// beginsRecord reports whether a line that has no end may be the beginning of a record. sure tells that it says so itself: all is there by which one is told.
func beginsRecord(format Format, line []byte) (may, sure bool) {
	head, next := "", []string{" stdout ", " stdout+ ", " stderr ", " stderr+ ", " " + gapStream + " "}
	if format == JSON {
		head, next = `{"time":"`, []string{`","program":"`}
	}
	n := min(len(head), len(line))
	at := line[n:min(len(line), n+len(recordTime))]
	if string(line[:n]) != head[:n] || !isRecordTime(at) {
		return false, false
	}
	rest := line[n+len(at):]
	for _, want := range next {
		if m := min(len(want), len(rest)); string(rest[:m]) == want[:m] {
			may, sure = true, sure || m == len(want)
		}
	}
	return may, sure
}
