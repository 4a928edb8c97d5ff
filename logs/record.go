package logs

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"superd/internal/escape"
)

// A Format is how output is written to its file.
type Format string

// The formats. A record is a line of the file. A line of output longer than 16 KiB becomes several
// records, of which all but the last are marked as partial.
const (
	Raw Format = "raw" // byte for byte
	// Direct is as raw, but the program writes to the file itself, which is not rotated.
	Direct Format = "direct"
	// Text has records: time, stream, line, separated by blanks. A + after the stream means that
	// the line is partial.
	Text Format = "text"
	JSON Format = "json" // records: objects as in [Record]
)

func (f Format) records() bool { return f == Text || f == JSON }

// A Record is what the format json writes for a line.
type Record struct {
	Time     string `json:"time"` // when superd read it: RFC 3339 with microseconds, UTC
	Program  string `json:"program"`
	Instance string `json:"instance"`
	Run      string `json:"run"`     // the SUPERD_INVOCATION_ID of the run
	Stream   string `json:"stream"`  // stdout; stderr; superd for a drop record
	Partial  bool   `json:"partial"` // the line continues in the next record of the stream
	Line     string `json:"line"`    // invalid UTF-8 becomes U+FFFD
}

// The names of streams in records.
const (
	stdout = "stdout"
	stderr = "stderr"
)

const (
	maxRecord = 16 << 10 // bytes of a line in one record
	// recordBytes is how much is written at a time. The longest record is less than half of it.
	recordBytes = 256 << 10
)

// recordTime is a time layout whose results sort as text.
const recordTime = "2006-01-02T15:04:05.000000Z"

// An ending is what the end of the visible text means, if it is not the end of a line.
type ending uint8

const (
	awaitMore    ending = iota // more of the line will become visible
	writePartial               // more may come, but what is there has to be written now
	lineComplete               // the line is complete without a newline
)

// A recordSpan is the part of the text that becomes one record.
type recordSpan struct {
	line    int  // bytes of the line
	taken   int  // line, and the newline if there is one
	partial bool // the line continues in the next record
}

// nextRecordSpan returns the first span of text, if text has all of it.
func nextRecordSpan(text []byte, end ending) (s recordSpan, ok bool) {
	if n := bytes.IndexByte(text[:min(len(text), maxRecord+1)], '\n'); n >= 0 {
		return recordSpan{n, n + 1, false}, true
	}
	switch n := wholeRunes(text[:min(len(text), maxRecord)]); {
	case len(text) > maxRecord || end == writePartial && len(text) > 0:
		return recordSpan{n, n, true}, true
	case end == lineComplete && len(text) > 0:
		return recordSpan{len(text), len(text), false}, true
	}
	return recordSpan{}, false
}

// wholeRunes returns the length of text without a truncated character at its end; all of it if it
// has nothing else.
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

// takenBy returns how many bytes of text went into its first records.
func takenBy(records int, text []byte, end ending) (taken int) {
	for ; records > 0; records-- {
		s, _ := nextRecordSpan(text[taken:], end)
		taken += s.taken
	}
	return taken
}

// A recorder makes records of lines.
type recorder struct {
	format            Format
	defaultPriority   int // priority of a line without one
	facility          int // of messages
	line              openLine
	head, partialHead []byte // of a record with a complete line, and with a partial one
}

// A recordBuffer is the memory in which records are made.
type recordBuffer struct {
	recorder recorder
	records  [recordBytes]byte
}

// reset sets time, stream and run of the following records.
func (r *recorder) reset(o *setting, instance, run, stream string, now time.Time) {
	r.format, r.defaultPriority, r.facility, r.line = o.Format, defaultPriority(stream), o.Facility, atBeginning
	r.head = r.begin(r.head[:0], o, instance, run, stream, now, false)
	r.partialHead = r.begin(r.partialHead[:0], o, instance, run, stream, now, true)
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
		if o.Sink == OwnStdout || o.Sink == Command { // lines of several instances go there
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

// append appends records of the lines in text to dst, as many as its capacity allows, and returns
// how many bytes of text it used.
func (r *recorder) append(dst, text []byte, end ending) (records []byte, used int) {
	for used < len(text) {
		s, ok := nextRecordSpan(text[used:], end)
		if !ok {
			break
		}
		line := text[used : used+s.line]
		prefix, size := r.head, s.line
		if s.partial {
			prefix = r.partialHead
		}
		if r.format == JSON {
			size *= maxEscaped
		}
		if len(dst) > 0 && cap(dst)-len(dst) < len(prefix)+size+messageOverhead {
			break
		}
		switch r.format {
		case journalFormat, syslogFormat:
			dst = r.appendMessage(dst, prefix, line, s.partial)
		case JSON:
			dst = appendJSON(append(dst, prefix...), line)
			dst = append(dst, "\"}\n"...)
		default:
			dst = append(append(dst, prefix...), line...)
			dst = append(dst, '\n')
		}
		used += s.taken
	}
	return dst, used
}

// maxEscaped is how many bytes one byte becomes at most in a JSON string.
const maxEscaped = len(`\u0000`)

// AppendJSON appends the entry as an object on a line, as docs/api.md describes it. name identifies
// the collector in the cursor.
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
	if !e.cursorOnly {
		known("time", e.Time)
		text("program", e.Program)
	}
	text("instance", e.Instance)
	switch {
	case e.cursorOnly:
	case e.Note != "":
		text("note", e.Note)
		if e.MissingBytes > 0 {
			dst = append(strconv.AppendInt(append(dst, `"lost_bytes":`...), e.MissingBytes, 10), ',')
		}
	default:
		known("run", e.Run)
		known("stream", e.Stream)
		dst = append(strconv.AppendBool(append(dst, `"partial":`...), e.Partial), ',')
		if e.Continued {
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

// appendJSON appends s as the content of a JSON string, without quotes. Invalid UTF-8 becomes
// U+FFFD, and what would control a terminal becomes an escape.
func appendJSON(dst, s []byte) []byte {
	done := 0
	for i := plain(s); i < len(s); i += plain(s[i:]) {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				dst = append(append(dst, s[done:i]...), `\ufffd`...)
				done = i + 1
			case escape.Needed(r):
				dst = escape.AppendRune(append(dst, s[done:i]...), r)
				done = i + size
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
			dst = escape.AppendRune(dst, rune(b))
		}
		i++
		done = i
	}
	return append(dst, s[done:]...)
}

// plain returns how many bytes at the start of s stand for themselves in a JSON string. It checks
// eight at a time: the masks set the top bit of each byte that does not.
//
// Source: "Determine if a word has a byte less than n", Bit Twiddling Hacks by Sean Eron Anderson.
func plain(s []byte) int {
	const each, top = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, backslash, del := w^each*'"', w^each*'\\', w^each*0x7f
		if (w|(w-each*' ')|(quote-each)|(backslash-each)|(del-each))&top != 0 {
			break // one of these eight: a borrow comes only from a byte that is not plain
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// lineIn returns the line in a record. A line of another format is returned as it is.
func lineIn(format Format, record []byte) []byte {
	line, _ := partIn(format, record)
	return line
}

// partIn is lineIn that also reports whether the line continues in the next record.
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
	default: // a line that is no record stays as it is
	}
	return record, false
}

// linesIn returns the lines of records. cut reports that the start of the first record is missing.
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

// isRecordTime reports whether text is the time of a record or, if shorter, the start of one.
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

// beginsRecord reports whether a line without an end may be the start of a record. sure reports
// that it is one: all that identifies a record is there.
func beginsRecord(format Format, line []byte) (may, sure bool) {
	head, next := "", []string{" stdout ", " stdout+ ", " stderr ", " stderr+ ", " " + dropStream + " "}
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
