package frame

import (
	"bytes"
	"encoding/json"
)

// Line returns the line in a record. A line of another format is returned as it is.
func Line(format Format, record []byte) []byte {
	line, _ := Part(format, record)
	return line
}

// Part is Line that also reports whether the line continues in the next record.
func Part(format Format, record []byte) (line []byte, partial bool) {
	switch format {
	case Text:
		if line, partial, ok := TextLine(record); ok {
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

// Lines returns the lines of records. cut reports that the start of the first record is missing.
func Lines(format Format, records []byte, cut bool) []byte {
	if cut {
		_, records, _ = bytes.Cut(records, newline)
	}
	var lines []byte
	for record := range bytes.Lines(records) {
		lines = append(lines, Line(format, bytes.TrimSuffix(record, newline))...)
		lines = append(lines, '\n')
	}
	return lines
}

// TextLine returns the line in a record of the format text, and whether the line continues in the
// next record. ok is false for what is no such record.
func TextLine(record []byte) (line []byte, partial, ok bool) {
	at, rest, _ := bytes.Cut(record, []byte{' '})
	stream, line, ok := bytes.Cut(rest, []byte{' '})
	return line, bytes.HasSuffix(stream, []byte{'+'}), ok && len(at) == len(TimeLayout) && isRecordTime(at)
}

// isRecordTime reports whether text is the time of a record or, if shorter, the start of one.
func isRecordTime(text []byte) bool {
	for i, b := range text {
		if i == len(TimeLayout) {
			return false
		}
		if want := TimeLayout[i]; want >= '0' && want <= '9' {
			if b < '0' || b > '9' {
				return false
			}
		} else if b != want {
			return false
		}
	}
	return true
}

// Begins reports whether a line without an end may be the start of a record. sure reports
// that it is one: all that identifies a record is there.
func Begins(format Format, line []byte) (may, sure bool) {
	head, next := "", []string{" stdout ", " stdout+ ", " stderr ", " stderr+ ", " " + DropStream + " "}
	if format == JSON {
		head, next = `{"time":"`, []string{`","program":"`}
	}
	n := min(len(head), len(line))
	at := line[n:min(len(line), n+len(TimeLayout))]
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

// NewestLine returns the newest complete line in text, the end of an output, without its newline,
// and where it begins; -1 if there is none. ended, if not negative, is where the output of a run
// ended: a line begun before that is complete there.
func NewestLine(text []byte, ended int) (line []byte, start int) {
	first := min(max(ended, 0), len(text))
	end := bytes.LastIndexByte(text[first:], '\n')
	switch {
	case end >= 0:
		end += first
	case ended > 0:
		first, end = 0, len(bytes.TrimSuffix(text[:first], newline))
	default:
		return nil, -1
	}
	start = first + bytes.LastIndexByte(text[first:end], '\n') + 1
	return text[start:end], start
}

// MaxShown is how many bytes of a line are stored to show it.
const MaxShown = 1024

var newline = []byte{'\n'}
