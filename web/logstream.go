package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"superd/control"
)

const (
	maxFrameLines  = 2000
	maxFrameBytes  = 1 << 20 // of their text
	maxCursorsText = 4 << 10 // of the cursors that a client is told
	usualLines     = 200
	maxTextBytes   = 16 << 20 // of a block of superd
)

// A logLine is a line of output.
type logLine struct {
	Name   string  `json:"name"`   // of the instance
	Stream string  `json:"stream"` // stdout, stderr, superd for a message of superd itself, or ""
	Time   *string `json:"time"`
	Text   string  `json:"text"`
	// No line end follows: the next line of the same instance and stream continues this one
	Partial bool `json:"partial,omitzero"`
}

// A logTail has the lines that a client was not sent yet: the newest ones, if it is slow.
type logTail struct {
	wake chan struct{} // has a value when there is something to send

	mu      sync.Mutex
	lines   []logLine
	first   int // index of the oldest one; those before were dropped
	bytes   int // of their text
	skipped int64
	cursors map[string]string // newest ones, by the part before the last colon
}

// logStream sends the last lines of instances, and new ones as they come.
func (s *Server) logStream(w http.ResponseWriter, r *http.Request, who session) error {
	h, err := s.host(r.FormValue("host"))
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), strconv.Itoa(usualLines)))
	if err != nil || n < 0 || n > maxFrameLines {
		return &control.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("not a number of lines: %q", r.FormValue("n")),
			Remedy: fmt.Sprintf("n may be 0 to %d", maxFrameLines)}
	}
	query := url.Values{"name": r.Form["name"], "lines": {strconv.Itoa(n)}, "follow": {"1"},
		"skip": {"1"}, "times": {"1"}, "blocks": {"1"}}
	tail := &logTail{wake: make(chan struct{}, 1), cursors: map[string]string{}}
	if cursor := cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("cursor")); cursor != "" {
		for _, c := range strings.Fields(cursor) {
			tail.cursors[c[:max(0, strings.LastIndexByte(c, ':'))]] = c
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out, err := s.openStream(w, r, who)
	if err != nil {
		return err
	}
	defer out.close()
	// The first request is made here, so that a wrong name is an error and no empty stream.
	answer, err := h.logs(ctx, query, tail)
	if err != nil {
		return err
	}
	go h.followLogs(ctx, query, tail, answer)
	for {
		select {
		case <-tail.wake:
		case <-out.keepAlive.C:
		case <-r.Context().Done():
			return nil
		case <-h.feed.ctx.Done():
			return nil // this server ends
		}
		tail.frame(&out.buffer)
		if !out.send() {
			return nil
		}
	}
}

// logs asks for lines: those after the cursors, if there are any.
func (h *host) logs(ctx context.Context, query url.Values, tail *logTail) (io.ReadCloser, error) {
	form := maps.Clone(query)
	tail.mu.Lock()
	if cursors := tail.cursorsText(); cursors != "" {
		form.Set("cursor", cursors)
	}
	tail.mu.Unlock()
	return h.stream(ctx, question{post: true, path: "/v1/logs", form: strings.NewReader(form.Encode())})
}

// followLogs collects lines until ctx is done. It never waits for the client.
func (h *host) followLogs(ctx context.Context, query url.Values, tail *logTail, answer io.ReadCloser) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		if answer != nil {
			if tail.read(answer) {
				pause = firstPause
			}
			answer.Close()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		answer, _ = h.logs(ctx, query, tail) // tried again
	}
}

// read collects the lines of an answer to its end, and reports whether there were any.
func (t *logTail) read(answer io.Reader) (some bool) {
	blocks := bufio.NewReaderSize(answer, 64<<10)
	for ; ; some = true {
		head, err := readLine(blocks)
		if err != nil {
			return some
		}
		var b control.LogBlock
		if err := json.Unmarshal(head, &b); err != nil {
			return some
		}
		if b.Length != nil {
			if *b.Length < 0 || *b.Length > maxTextBytes {
				return some
			}
			b.Text = make([]byte, *b.Length+len("\n"))
			if _, err := io.ReadFull(blocks, b.Text); err != nil {
				return some
			}
			b.Text = b.Text[:*b.Length]
		}
		t.add(&b)
	}
}

// add collects the lines of a block.
func (t *logTail) add(b *control.LogBlock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := strings.LastIndexByte(b.Cursor, ':'); i >= 0 {
		t.cursors[b.Cursor[:i]] = b.Cursor
	}
	line := logLine{Name: b.Instance, Time: b.Time, Partial: b.Partial}
	if b.Stream != nil {
		line.Stream = *b.Stream
	}
	switch {
	case b.Note != nil:
		line.Stream, line.Text = "superd", *b.Note
		t.append(line)
		t.skipped += b.LostBytes
	case b.Length != nil:
		for text := range bytes.SplitSeq(b.Text, []byte("\n")) {
			line.Text = string(text)
			t.append(line)
		}
	default:
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// append adds a line, and drops the oldest ones above the limit.
func (t *logTail) append(l logLine) {
	t.lines = append(t.lines, l)
	t.bytes += len(l.Text)
	for len(t.lines)-t.first > maxFrameLines || t.bytes > maxFrameBytes {
		dropped := len(t.lines[t.first].Text)
		t.bytes -= dropped
		t.skipped += int64(dropped + len("\n"))
		t.lines[t.first] = logLine{}
		t.first++
	}
	if t.first >= maxFrameLines {
		t.lines = append(t.lines[:0], t.lines[t.first:]...)
		t.first = 0
	}
}

// frame appends the lines that were not sent yet, as events of a stream.
func (t *logTail) frame(b *bytes.Buffer) {
	t.mu.Lock()
	lines, skipped, id := slices.Clone(t.lines[t.first:]), t.skipped, t.cursorsText()
	clear(t.lines)
	t.lines, t.first, t.bytes, t.skipped = t.lines[:0], 0, 0, 0
	t.mu.Unlock()
	if skipped > 0 {
		event(b, "gap", "", fmt.Appendf(nil, `{"skipped_bytes":%d}`, skipped))
	}
	if len(lines) == 0 {
		return
	}
	if len(id) > maxCursorsText {
		id = "" // a browser would send it in a header
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return // strings are always written
	}
	event(b, "lines", id, text)
}

// cursorsText returns the cursors as superd takes them.
func (t *logTail) cursorsText() string {
	return strings.Join(slices.Sorted(maps.Values(t.cursors)), " ")
}
