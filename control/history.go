package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// An Event is one entry of superd's event log. Keys without a value are absent.
type Event struct {
	Cursor        uint64     `json:"cursor"` // number of the event, counted from 1 without holes
	At            time.Time  `json:"at"`
	Kind          string     `json:"kind"` // one of the kinds of events
	Instance      string     `json:"instance,omitempty"`
	Program       string     `json:"program,omitempty"`
	Run           string     `json:"run,omitempty"` // invocation id
	From          string     `json:"from,omitempty"`
	State         string     `json:"state,omitempty"`
	Pid           int        `json:"pid,omitempty"`
	Socket        string     `json:"socket,omitempty"`  // its name
	Address       string     `json:"address,omitempty"` // of that socket
	By            string     `json:"by,omitempty"`
	ByKind        string     `json:"by_kind,omitempty"`
	Reason        string     `json:"reason,omitempty"`
	ReasonKind    string     `json:"reason_kind,omitempty"`
	Exit          *EventExit `json:"exit,omitempty"`
	Started       *time.Time `json:"started_at,omitempty"`
	Duration      *float64   `json:"duration_s,omitempty"`
	CPU           *float64   `json:"cpu_s,omitempty"`
	MaxRSS        *int64     `json:"max_rss_bytes,omitempty"`
	RSSBound      bool       `json:"max_rss_is_bound,omitempty"` // max_rss_bytes is an upper bound
	RestartIn     *float64   `json:"restart_in_s,omitempty"`
	Output        []string   `json:"output,omitempty"` // lines without line ends
	LogCursor     string     `json:"log,omitempty"`    // cursor of the log
	MissingEvents uint64     `json:"lost,omitempty"`   // absent if unknown
}

// An EventExit says how a main process ended.
type EventExit struct {
	Code   *int    `json:"code"`   // null if a signal ended it, or if unknown
	Signal *string `json:"signal"` // such as "SIGKILL"; null if it exited by itself
	Known  bool    `json:"known"`
}

// A Run is one run of an instance, or an attempt to start one. Missing values are null.
type Run struct {
	Name     string     `json:"name"` // name of the instance
	Program  string     `json:"program"`
	Run      string     `json:"run"` // invocation id
	Pid      *int       `json:"pid"` // null: it could not be started
	Started  *time.Time `json:"started_at"`
	Ended    *time.Time `json:"ended_at"` // null: it has not ended, or the time is unknown
	Exit     *Exit      `json:"exit"`     // null: as for Ended, or it could not be started
	Duration *float64   `json:"duration_s"`
	// User and system time, with that of children it waited for
	CPU      *float64 `json:"cpu_s"`
	MaxRSS   *int64   `json:"max_rss_bytes"`    // of its largest process
	RSSBound bool     `json:"max_rss_is_bound"` // max_rss_bytes is an upper bound
	// How it ended, or why it was not started; null: it runs
	Reason     *string `json:"reason"`
	ReasonKind *string `json:"reason_kind"` // kind of the reason, for scripts
}

// A Why explains the state of one instance.
type Why struct {
	Name       string  `json:"name"`
	State      string  `json:"state"`
	ReasonKind *string `json:"reason_kind"` // as in a Status
	Text       string  `json:"text"`        // several lines, with the output of programs unchanged
}

// An EventQuery selects events.
type EventQuery struct {
	// Programs, instances, groups, globs; none: all, with the events about superd itself
	Names  []string
	After  uint64 // cursor of the event before the first to return; 0 is before the oldest
	Since  string // a duration, or a time as in RFC 3339, instead of After; "": any time
	Lines  int    // number of last events to return; negative: all
	Follow bool
}

// Events calls f with the events that match q, as sent: a JSON object on one line, with its line
// end. With Follow it continues with new events until ctx is done or superd has ended for good.
func (c *Client) Events(ctx context.Context, q EventQuery, f func(line []byte) error) error {
	next := func() request { return request{path: "/v1/events", query: q.values()} }
	return c.stream(ctx, streaming{request: next, endless: q.Follow, line: func(line []byte) error {
		var e struct{ Cursor uint64 }
		if json.Unmarshal(line, &e) == nil && e.Cursor > 0 {
			q.After, q.Since, q.Lines = e.Cursor, "", -1 // start of the next request
		}
		return f(line)
	}})
}

func (q *EventQuery) values() url.Values {
	values := url.Values{"name": q.Names, "since": {strconv.FormatUint(q.After, 10)}}
	if q.Since != "" {
		values.Set("since", q.Since)
	}
	if q.Lines >= 0 {
		values.Set("lines", strconv.Itoa(q.Lines))
	}
	if q.Follow {
		values.Set("follow", "1")
	}
	return values
}

// History returns the runs of the instances that match names (all if there are no names), in the
// order of their starts.
func (c *Client) History(ctx context.Context, names []string) ([]Run, error) {
	var all []Run
	err := c.get(ctx, "/v1/history", url.Values{"name": names}, &all)
	return all, err
}

// Why returns explanations of the instances that match names.
func (c *Client) Why(ctx context.Context, names []string) ([]Why, error) {
	var all []Why
	err := c.get(ctx, "/v1/why", url.Values{"name": names}, &all)
	return all, err
}

// DecodeEvent decodes an event from a line of [Client.Events].
func DecodeEvent(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}
