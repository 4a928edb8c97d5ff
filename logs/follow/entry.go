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
	// Skip skips output that came since the reading began, if the reader is more than 16 MiB behind
	// the end. An entry reports how much.
	Skip   bool
	Times  bool // with Follow, raw lines have the time at which they came, if that is known
	Blocks bool // an entry may have several lines
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
	Lines        int            // in Line, separated by newlines, if there are several
	Note         string         // message of superd, then without a line
	MissingBytes int64          // bytes missing here; -1: unknown how many
	Cursor       segment.Cursor // of what follows the entry

	cursorOnly bool // neither line nor note, only a cursor
}

// IsCursorOnly reports whether the entry has nothing but a cursor.
func (e *Entry) IsCursorOnly() bool { return e.cursorOnly }

// AppendJSON appends the entry as an object on a line, as docs/api.md describes it. name identifies
// the collector in the cursor. The entry must not have several lines.
func (e *Entry) AppendJSON(dst []byte, name string) []byte {
	return e.append(dst, name, func(dst []byte) []byte {
		dst = append(dst, `"line":"`...)
		dst = append(frame.AppendJSON(dst, e.Line), `",`...)
		if !utf8.Valid(e.Line) {
			dst = append(base64.StdEncoding.AppendEncode(append(dst, `"bytes":"`...), e.Line), `",`...)
		}
		return dst
	})
}

// AppendBlock is AppendJSON with the text after the object instead of in it, byte for byte and with
// an end.
func (e *Entry) AppendBlock(dst []byte, name string) []byte {
	text := false
	dst = e.append(dst, name, func(dst []byte) []byte {
		text = true
		if e.Lines > 1 {
			dst = append(strconv.AppendInt(append(dst, `"lines":`...), int64(e.Lines), 10), ',')
		}
		return append(strconv.AppendInt(append(dst, `"length":`...), int64(len(e.Line)), 10), ',')
	})
	if text {
		dst = append(append(dst, e.Line...), '\n')
	}
	return dst
}

// append appends the object; text appends the keys of its text.
func (e *Entry) append(dst []byte, name string, text func(dst []byte) []byte) []byte {
	dst = append(dst, '{')
	key := func(key, value string) {
		dst = append(append(append(dst, '"'), key...), `":"`...)
		dst = append(frame.AppendJSON(dst, []byte(value)), `",`...)
	}
	known := func(name, value string) {
		if value != "" {
			key(name, value)
		} else {
			dst = append(append(append(dst, '"'), name...), `":null,`...)
		}
	}
	if !e.cursorOnly {
		known("time", e.Time)
		key("program", e.Program)
	}
	key("instance", e.Instance)
	switch {
	case e.cursorOnly:
	case e.Note != "":
		key("note", e.Note)
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
		dst = text(dst)
	}
	dst = append(dst, `"cursor":"`...)
	dst = append(append(frame.AppendJSON(dst, []byte(name)), ':'), e.Cursor.String()...)
	return append(dst, "\"}\n"...)
}
