package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// An Event is one entry of superd's event log. Keys that say nothing about it are absent.
type Event struct {
	Cursor    uint64     `json:"cursor"` // its number, counted from 1 without holes
	At        time.Time  `json:"at"`
	Kind      string     `json:"kind"` // state, start, no-start, exit, output, print, skip, command, reload, shutdown, superd or gap
	Instance  string     `json:"instance,omitempty"`
	Program   string     `json:"program,omitempty"`
	Run       string     `json:"run,omitempty"` // invocation id
	From      string     `json:"from,omitempty"`
	State     string     `json:"state,omitempty"`
	Pid       int        `json:"pid,omitempty"`
	By        string     `json:"by,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Exit      *EventExit `json:"exit,omitempty"`
	Started   *time.Time `json:"started_at,omitempty"`
	Duration  *float64   `json:"duration_s,omitempty"`
	CPU       *float64   `json:"cpu_s,omitempty"`
	MaxRSS    *int64     `json:"max_rss_bytes,omitempty"`
	RSSBound  bool       `json:"max_rss_is_bound,omitempty"` // it had no more than that
	RestartIn *float64   `json:"restart_in_s,omitempty"`
	Output    []string   `json:"output,omitempty"` // lines, without their ends
	Place     string     `json:"log,omitempty"`    // a cursor of the log
	Lost      uint64     `json:"lost,omitempty"`   // how many events are missing; absent in a gap of unknown size
}

// An EventExit is how a main process ended.
type EventExit struct {
	Code   *int    `json:"code"`   // null when a signal ended it, or nobody knows
	Signal *string `json:"signal"` // "SIGKILL"; null when it exited by itself
	Known  bool    `json:"known"`
}

// A Run is one run of an instance, or the attempt at one. Absent values are null.
type Run struct {
	Name     string     `json:"name"` // of the instance
	Program  string     `json:"program"`
	Run      string     `json:"run"` // invocation id
	Pid      *int       `json:"pid"` // null: it could not be started
	Started  *time.Time `json:"started_at"`
	Ended    *time.Time `json:"ended_at"` // null: it has not, or nobody knows when
	Exit     *Exit      `json:"exit"`     // null: as for Ended, or it could not be started
	Duration *float64   `json:"duration_s"`
	CPU      *float64   `json:"cpu_s"`            // user and system, its children's that it waited for among it
	MaxRSS   *int64     `json:"max_rss_bytes"`    // of its largest process
	RSSBound bool       `json:"max_rss_is_bound"` // it had no more than that
	Reason   *string    `json:"reason"`           // how it ended, or why it was not started; null: it runs
}

// A Why explains the state of one instance.
type Why struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Text  string `json:"text"` // several lines, with what programs printed as it was
}

// Events calls f with the events after the one numbered since, as they were sent: a JSON object on a line with its end.
// 0 is before the oldest that is kept. With follow it goes on with what happens until ctx is done or superd has ended for good.
func (c *Client) Events(ctx context.Context, since uint64, follow bool, f func(line []byte) error) error {
	next := func() request {
		query := url.Values{"since": {strconv.FormatUint(since, 10)}}
		if follow {
			query.Set("follow", "1")
		}
		return request{path: "/v1/events", query: query}
	}
	return c.stream(ctx, streaming{request: next, endless: follow, line: func(line []byte) error {
		var e struct{ Cursor uint64 }
		if json.Unmarshal(line, &e) == nil && e.Cursor > 0 {
			since = e.Cursor
		}
		return f(line)
	}})
}

// History returns the runs of what names stand for, of all instances without names, in the order of their starts.
func (c *Client) History(ctx context.Context, names []string) ([]Run, error) {
	var all []Run
	err := c.get(ctx, "/v1/history", url.Values{"name": names}, &all)
	return all, err
}

// Why returns explanations of the instances that name stands for.
func (c *Client) Why(ctx context.Context, name string) ([]Why, error) {
	var all []Why
	err := c.get(ctx, "/v1/programs/"+url.PathEscape(name)+"/why", nil, &all)
	return all, err
}

// DecodeEvent reads an event from a line of [Client.Events].
func DecodeEvent(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}
