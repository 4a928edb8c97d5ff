package control

import (
	"context"
	"encoding/json"
	"fmt"
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
}

// A LogLine is a line of output, a part of a line, a note, or only a cursor.
type LogLine struct {
	Time     *string `json:"time"` // RFC 3339 with microseconds; null: unknown
	Program  string  `json:"program"`
	Instance string  `json:"instance"`
	Run      *string `json:"run"`     // null: unknown
	Stream   *string `json:"stream"`  // null: unknown
	Partial  bool    `json:"partial"` // no line end follows
	// Continues the previous line of the same instance and stream
	Continued bool `json:"continued"`
	// The line, invalid UTF-8 replaced; absent in notes and bare cursors
	Line      *string `json:"line"`
	Bytes     []byte  `json:"bytes"` // the line, if it is not UTF-8
	Note      *string `json:"note"`  // a message of superd itself
	LostBytes int64   `json:"lost_bytes"`
	Cursor    string  `json:"cursor"` // cursor of the next line
}

// Text returns the exact bytes of the line.
func (l *LogLine) Text() string {
	switch {
	case l.Bytes != nil:
		return string(l.Bytes)
	case l.Line != nil:
		return *l.Line
	}
	return ""
}

// Logs calls f with each line that matches q, as sent and decoded, and idle when no further line
// has arrived yet. With Follow it continues with new lines until ctx is done or superd has ended
// for good. If a successor takes over, the lines continue at the same cursor.
func (c *Client) Logs(ctx context.Context, q LogQuery, f func(sent []byte, l *LogLine) error, idle func() error) error {
	cursors := map[string]string{} // last cursors, by the part before the last colon
	line := func(line []byte) error {
		var l LogLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("read answer of superd: %w", err)
		}
		if i := strings.LastIndexByte(l.Cursor, ':'); i >= 0 && q.Follow {
			cursors[l.Cursor[:i]] = l.Cursor
		}
		return f(line, &l)
	}
	return c.stream(ctx, streaming{request: func() request { return q.request(cursors) }, endless: q.Follow, line: line, idle: idle})
}

// request returns the request for the lines after cursors, if there are any. The cursors are sent
// in the body, since they may exceed a request line.
func (q *LogQuery) request(cursors map[string]string) request {
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
	if q.Raw {
		set("raw", "1")
	}
	if q.Follow {
		set("follow", "1")
	}
	// One field for all cursors: the reader refuses forms with more than 10,000 fields.
	set("cursor", strings.Join(slices.Sorted(maps.Values(cursors)), " "))
	return request{path: "/v1/logs", form: form, post: true, repeatable: true}
}
