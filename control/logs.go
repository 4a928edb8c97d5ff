package control

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A LogQuery selects output.
type LogQuery struct {
	Names []string // programs, instances, groups, globs; none: all
	Lines int      // number of last lines of each instance; negative: all
	Since string   // a duration, or a time as in RFC 3339; "": any time
	Until string   // as Since
	// 0 the newest, -1 the one before, or an invocation id, or its beginning; "": any
	Run    string
	Grep   string // regular expression; "": any line
	Raw    bool   // return lines as they are in the file
	Follow bool
	// Skip skips output that came since the request, if the reader is more than 16 MiB behind. A
	// note says how much.
	Skip  bool
	Times bool // with Follow, raw lines have the time at which they came, if that is known

	// Cursors are where to continue, by the part of a cursor before its last colon. [Client.Logs]
	// keeps the last ones in it if it follows, so that a further call misses nothing. nil: none.
	Cursors map[string]string
}

// A LogBlock is lines of output that have everything but their text in common, a part of a line, a
// note, or only a cursor.
type LogBlock struct {
	Time     *string `json:"time"` // RFC 3339 with microseconds; null: unknown
	Program  string  `json:"program"`
	Instance string  `json:"instance"`
	Run      *string `json:"run"`     // null: unknown
	Stream   *string `json:"stream"`  // null: unknown
	Partial  bool    `json:"partial"` // no line end follows
	// Continues the previous line of the same instance and stream
	Continued bool `json:"continued,omitzero"`
	// Bytes of the text, without its end; absent in notes and bare cursors
	Length *int `json:"length,omitzero"`
	// In the text, separated by newlines, if there are several
	Lines     int     `json:"lines,omitzero"`
	Note      *string `json:"note,omitzero"` // a message of superd itself
	LostBytes int64   `json:"lost_bytes,omitzero"`
	Cursor    string  `json:"cursor"` // cursor of the next line

	Text []byte `json:"-"` // valid until the next block
}

// A LogLine is a line of output, or a note, in the JSON that [Client.LogsJSON] passes on.
type LogLine struct {
	Time     *string `json:"time"` // RFC 3339 with microseconds; null: unknown
	Program  string  `json:"program"`
	Instance string  `json:"instance"`
	Run      *string `json:"run"`     // null: unknown
	Stream   *string `json:"stream"`  // stdout, stderr, superd, or null: unknown
	Partial  bool    `json:"partial"` // no line end follows
	// Continues the previous line of the same instance and stream
	Continued bool `json:"continued,omitzero"`
	// Without its end; absent in a note; invalid UTF-8 replaced
	Line      *string `json:"line,omitzero"`
	Bytes     []byte  `json:"bytes,omitzero"` // the line in base64; only if it is not UTF-8
	Note      *string `json:"note,omitzero"`  // a message of superd itself, instead of a line
	LostBytes int64   `json:"lost_bytes,omitzero"`
	Cursor    string  `json:"cursor"` // cursor of the next line
}

// A LogPlace says where the lines of an instance begin, when they are followed.
type LogPlace struct {
	Instance string `json:"instance"`
	Cursor   string `json:"cursor"`
}

// Logs calls f with the lines that match q, and idle when no further line has arrived yet. With
// Follow it continues with new lines until ctx is done or superd has ended for good. If a successor
// takes over, the lines continue at the same cursor.
func (c *Client) Logs(ctx context.Context, q LogQuery, f func(b *LogBlock) error, idle func() error) error {
	cursors := q.Cursors // last cursors, by the part before the last colon
	if cursors == nil {
		cursors = map[string]string{}
	}
	var b LogBlock
	s := streaming{request: func() request { return q.request(cursors, true) }, endless: q.Follow, idle: idle}
	s.text = func(head []byte) (int, error) {
		b = LogBlock{}
		if err := json.Unmarshal(head, &b); err != nil || b.Length == nil {
			return 0, err
		}
		return *b.Length + len("\n"), nil
	}
	s.line = func(block []byte) error {
		if i := strings.LastIndexByte(b.Cursor, ':'); i >= 0 && q.Follow {
			cursors[b.Cursor[:i]] = b.Cursor
		}
		if b.Length != nil {
			b.Text = block[len(block)-1-*b.Length : len(block)-1]
		}
		return f(&b)
	}
	return c.stream(ctx, s)
}

// LogsJSON is Logs with a JSON object for each line, as sent, with its line end. f is not called
// with objects that have only a cursor.
func (c *Client) LogsJSON(ctx context.Context, q LogQuery, f func(line []byte) error, idle func() error) error {
	last := map[string]*[]byte{} // newest cursors as sent, by the part before the last colon
	next := func() request {
		cursors := map[string]string{}
		for name, cursor := range last {
			cursors[name] = string(*cursor)
		}
		return q.request(cursors, false)
	}
	s := streaming{request: next, endless: q.Follow, idle: idle}
	s.line = func(line []byte) error {
		// The cursor is the last key, and needs no escapes: the rest need not be decoded.
		_, cursor, _ := cutLast(bytes.TrimSuffix(line, []byte("\"}\n")), []byte(`"cursor":"`))
		if name, _, ok := cutLast(cursor, []byte{':'}); ok && q.Follow {
			if last[string(name)] == nil {
				last[string(name)] = new([]byte)
			}
			newest := last[string(name)]
			*newest = append((*newest)[:0], cursor...)
		}
		if bytes.HasPrefix(line, []byte(`{"instance":`)) {
			return nil
		}
		return f(line)
	}
	return c.stream(ctx, s)
}

// cutLast is bytes.Cut around the last separator.
func cutLast(text, separator []byte) (before, after []byte, found bool) {
	i := bytes.LastIndex(text, separator)
	if i < 0 {
		return text, nil, false
	}
	return text[:i], text[i+len(separator):], true
}

// request returns the request for the lines after cursors, if there are any. The cursors are sent
// in the body, since they may exceed a request line. The answer begins with the first line that
// matches, which may take any time to find.
func (q *LogQuery) request(cursors map[string]string, blocks bool) request {
	form := url.Values{"name": q.Names}
	set := func(key, value string) {
		if value != "" {
			form.Set(key, value)
		}
	}
	if q.Lines >= 0 {
		set("lines", strconv.Itoa(q.Lines))
	}
	set("grep", q.Grep)
	set("since", q.Since)
	set("until", q.Until)
	set("run", q.Run)
	for key, value := range map[string]bool{
		"raw": q.Raw, "follow": q.Follow, "skip": q.Skip, "times": q.Times, "blocks": blocks,
	} {
		if value {
			set(key, "1")
		}
	}
	// One field for all cursors: the reader refuses forms with more than 10,000 fields.
	set("cursor", strings.Join(slices.Sorted(maps.Values(cursors)), " "))
	return request{path: "/v1/logs", form: form, post: true, repeatable: true, unbounded: true}
}
