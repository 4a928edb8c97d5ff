package follow

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"superd/logs/frame"
	"superd/logs/segment"
)

// A Query selects output.
type Query struct {
	Lines int       // number of last lines of each collector; negative: all that exist
	Since time.Time // zero: no limit
	// Until is a limit unless it is zero. Lines without a time are omitted if their file was begun
	// later.
	Until  time.Time
	Grep   *regexp.Regexp // what a line has to match; nil: anything
	Raw    bool           // lines as they are in the file, also one without an end
	Follow bool           // continue with new output
}

// A Span is a run of a program, as far as its start and end are known.
type Span struct {
	ID       string
	From, To time.Time // To is zero while there is no next run
	// Start is where its output begins, End where that of the next run that printed something
	// begins; nil: not known.
	Start, End *segment.Cursor
}

// An Entry is a line of output, a part of a line, or a note.
type Entry struct {
	Time          string // RFC 3339 with microseconds, UTC; "": not known
	Program       string
	Instance      string
	Run           string // "": not known
	Stream        string // "": not known
	FromStderrLog bool   // it is from standard error's own file
	Partial       bool   // no line end follows
	// Continued reports that the entry continues the line of the preceding one of the same source
	// and stream.
	Continued    bool
	Line         []byte         // without its end
	Note         string         // message of superd, then without a line
	MissingBytes int64          // bytes missing here; -1: unknown how many
	Cursor       segment.Cursor // of what follows the entry

	cursorOnly bool // neither line nor note, only a cursor
}

// IsCursorOnly reports whether the entry has nothing but a cursor.
func (e *Entry) IsCursorOnly() bool { return e.cursorOnly }

// AppendJSON appends the entry as an object on a line, as docs/api.md describes it. name identifies
// the collector in the cursor.
func (e *Entry) AppendJSON(dst []byte, name string) []byte {
	dst = append(dst, '{')
	text := func(key, value string) {
		dst = append(append(append(dst, '"'), key...), `":"`...)
		dst = append(frame.AppendJSON(dst, []byte(value)), `",`...)
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
		dst = append(frame.AppendJSON(dst, e.Line), `",`...)
		if !utf8.Valid(e.Line) {
			dst = append(base64.StdEncoding.AppendEncode(append(dst, `"bytes":"`...), e.Line), `",`...)
		}
	}
	dst = append(dst, `"cursor":"`...)
	dst = append(append(frame.AppendJSON(dst, []byte(name)), ':'), e.Cursor.String()...)
	return append(dst, "\"}\n"...)
}
