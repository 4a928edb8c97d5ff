package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"superd/control"
)

const (
	keepAlive      = 15 * time.Second
	maxFrameEvents = 512 // events of superd in a frame; others wait in its event log
)

// An entry is an event of superd's event log.
type entry struct {
	cursor uint64
	text   []byte // as superd has sent it
}

// stream sends the state of all instances, what changes, and the events after a cursor. Nothing of
// the event log is missed: a client that comes back names the last event that it has got.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, who session) error {
	h, err := s.host(r.FormValue("host"))
	if err != nil {
		return err
	}
	cursor := cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("cursor"))
	after, err := strconv.ParseUint(cmp.Or(cursor, "0"), 10, 64)
	if err != nil {
		return &control.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("not the number of an event: %q", cursor),
			Remedy: "send the last id that the stream had"}
	}
	out, err := s.openStream(w, r, who)
	if err != nil {
		return err
	}
	defer out.close()
	v := h.feed.join()
	defer v.leave()
	entries := make(chan entry, maxFrameEvents)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go h.follow(ctx, after, cursor == "", entries)

	for {
		var next *entry
		select {
		case <-v.wake:
		case e := <-entries:
			next = &e
		case <-out.keepAlive.C:
		case <-r.Context().Done():
			return nil
		case <-h.feed.ctx.Done():
			return nil // this server ends
		}
		v.frame(&out.buffer)
		for n := 1; next != nil; n++ {
			event(&out.buffer, "event", strconv.FormatUint(next.cursor, 10), next.text)
			next = nil
			if n == maxFrameEvents {
				break
			}
			select {
			case e := <-entries:
				next = &e
			default:
			}
		}
		if !out.send() {
			return nil
		}
	}
}

// follow passes on the events after a cursor, or from the newest one on, until ctx is done. If
// superd has answered that there is none yet, all later ones are new. It waits while into is full.
func (h *host) follow(ctx context.Context, after uint64, fromNow bool, into chan<- entry) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		query := url.Values{"follow": {"1"}, "since": {strconv.FormatUint(after, 10)}}
		if fromNow {
			query = url.Values{"follow": {"1"}, "lines": {"1"}}
		}
		answer, err := h.stream(ctx, question{path: "/v1/events", query: query})
		if err == nil {
			fromNow = false // after a break, what was added meanwhile is new
			for lines := bufio.NewReaderSize(answer, 16<<10); ; {
				line, err := readLine(lines)
				var number struct {
					Cursor uint64 `json:"cursor"`
				}
				if err != nil || json.Unmarshal(line, &number) != nil {
					break
				}
				select {
				case into <- entry{number.Cursor, line}:
					after, pause = number.Cursor, firstPause
				case <-ctx.Done():
				}
			}
			answer.Close()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// A sender sends frames of events: at most one in a frame interval.
type sender struct {
	buffer    bytes.Buffer // the next frame
	keepAlive *time.Ticker

	w       http.ResponseWriter
	flush   func() error
	ctx     context.Context
	last    time.Time   // when the last frame was sent
	valid   func() bool // whether the client is still logged in
	release func()
}

// openStream prepares an answer of Server-Sent Events, unless there are too many. The first frame
// begins it: until then the answer may still be an error.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request, who session) (*sender, error) {
	if !s.streams.take(who.id) {
		return nil, errBusy
	}
	out := &sender{
		w: w, flush: http.NewResponseController(w).Flush, ctx: r.Context(),
		keepAlive: time.NewTicker(keepAlive), release: func() { s.streams.give(who.id) },
		valid: func() bool { return s.auth.isValid(who, time.Now()) },
	}
	out.buffer.WriteString("retry: 1000\n\n") // a browser comes back after a second
	return out, nil
}

func (s *sender) close() {
	s.keepAlive.Stop()
	s.release()
}

// send sends what is in the buffer, or else a comment that keeps the connection alive, and reports
// whether the client may still be there. A client that is logged in no more gets nothing.
func (s *sender) send() bool {
	if wait := frameInterval - time.Since(s.last); wait > 0 && !s.last.IsZero() {
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
			return false
		}
	}
	if !s.valid() {
		return false
	}
	if s.last.IsZero() {
		header := s.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("X-Accel-Buffering", "no") // nginx passes each frame on
	}
	if s.buffer.Len() == 0 {
		s.buffer.WriteString(":\n\n")
	}
	_, err := s.w.Write(s.buffer.Bytes())
	if err == nil {
		err = s.flush()
	}
	const kept = 1 << 20 // capacity
	if s.buffer.Reset(); s.buffer.Cap() > kept {
		s.buffer = bytes.Buffer{}
	}
	s.last = time.Now()
	s.keepAlive.Reset(keepAlive)
	return err == nil
}

// event appends an event to a frame. The parts of data have no line ends; id may be empty.
func event(b *bytes.Buffer, kind, id string, data ...[]byte) {
	b.WriteString("event: ")
	b.WriteString(kind)
	if id != "" {
		b.WriteString("\nid: ")
		b.WriteString(id)
	}
	b.WriteString("\ndata: ")
	for _, part := range data {
		b.Write(part)
	}
	b.WriteString("\n\n")
}
