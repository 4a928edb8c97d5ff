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

// A LogQuery tells which output is wanted.
type LogQuery struct {
	Names  []string // programs, instances, groups, globs
	Lines  int      // the last ones of each instance; negative: all that are kept
	Since  string   // a duration, or a time as in RFC 3339; "": whenever
	Run    string   // 0 the newest, -1 the one before, or an invocation id; "": any
	Grep   string   // regular expression; "": any line
	Raw    bool     // lines as they stand in the file
	Follow bool
}

// A LogLine is a line of output, a part of one, a note, or nothing but a place.
type LogLine struct {
	Time     *string `json:"time"` // RFC 3339 with microseconds; null: not known
	Program  string  `json:"program"`
	Instance string  `json:"instance"`
	Run      *string `json:"run"`       // null: not known
	Stream   *string `json:"stream"`    // null: not known
	Partial  bool    `json:"partial"`   // no line end follows
	GoesOn   bool    `json:"continued"` // the line of the one before, of the same instance and stream, goes on
	Line     *string `json:"line"`      // what is not UTF-8 is replaced; absent from notes and places
	Bytes    []byte  `json:"bytes"`     // the line, if it is not UTF-8
	Note     *string `json:"note"`      // what superd says itself
	Lost     int64   `json:"lost_bytes"`
	Cursor   string  `json:"cursor"` // of what follows
}

// Text returns the line byte for byte.
func (l *LogLine) Text() string {
	switch {
	case l.Bytes != nil:
		return string(l.Bytes)
	case l.Line != nil:
		return *l.Line
	}
	return ""
}

// Logs calls f with the lines that q asks for, each as it was sent and decoded, and idle when no other is there yet. With follow it goes on with what comes until ctx is done or superd has
// ended for good: where another superd takes its place, the lines go on where they were.
func (c *Client) Logs(ctx context.Context, q LogQuery, f func(sent []byte, l *LogLine) error, idle func() error) error {
	cursors := map[string]string{} // by what they belong to
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

// request asks for the lines after the cursors, if there are any. It goes into the body, where there is room for them.
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
	set("run", q.Run)
	if q.Raw {
		set("raw", "1")
	}
	if q.Follow {
		set("follow", "1")
	}
	// One field for all: a form of more than 10,000 is refused by who reads it.
	set("cursor", strings.Join(slices.Sorted(maps.Values(cursors)), " "))
	return request{path: "/v1/logs", form: form, post: true, repeatable: true}
}
