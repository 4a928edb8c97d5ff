package server

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs"
	"superd/procs/eventlog"
)

// writeBytes is about how much of an answer is sent at a time.
const writeBytes = 32 << 10

// A logRequest asks for lines.
type logRequest struct {
	names   []string
	query   logs.Query
	run     string                  // "": any; a number, or the invocation id
	cursors map[string]*logs.Cursor // where earlier answers ended, by instance; nil: this is the first
}

// readLogs sends lines of what names stand for, each an object, and with follow what comes after them, also of those that come to bear
// such a name.
//
// A follower that does not read is not ended: he holds his goroutine, reads files, and is told what was removed before he came to it.
func (s *Server) readLogs(w http.ResponseWriter, r *http.Request) error {
	q, err := s.logRequest(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	added := make(chan struct{}, 1)
	if q.query.Follow {
		defer s.watchInstances(added)()
	}
	outputs, err := s.outputs(ctx, q.names, q.cursors != nil)
	if err != nil {
		return err
	}
	wanted, err := s.wanted(ctx, q, outputs)
	if err != nil {
		return err
	}
	out := &stream{w: w, client: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if !q.query.Follow {
		out.stall = s.stall
	} else if err := out.client.Flush(); err != nil {
		return nil
	}
	reading := logs.NewReading(ctx, q.query)
	defer reading.Close()
	err = reading.Set(wanted)
	for ending := false; err == nil; {
		if err = send(reading, out); err != nil || !q.query.Follow || ending {
			break
		}
		select {
		case <-reading.Wake():
		case <-added:
			if outputs, err = s.outputs(ctx, q.names, true); err == nil {
				err = reading.Set(fresh(outputs))
			}
		case <-s.closing:
			ending = true
		case <-ctx.Done():
			return nil
		}
	}
	switch {
	case err == nil, out.err != nil, ctx.Err() != nil:
		return nil
	case !out.begun && !q.query.Follow:
		return err
	}
	s.log.Warn("logs not sent to their end", "error", err)
	panic(http.ErrAbortHandler) // so that the client sees that something is missing
}

// send sends all that there is.
func send(reading *logs.Reading, out *stream) error {
	buffer := make([]byte, 0, writeBytes)
	for {
		e, err := reading.Next()
		if err != nil {
			return err
		}
		if e != nil {
			which := logs.Stdout
			if e.Apart {
				which = logs.Stderr
			}
			buffer = e.AppendJSON(buffer, logName(e.Instance, which))
		}
		if len(buffer) > 0 && (e == nil || len(buffer) >= writeBytes) {
			if _, err := out.Write(buffer); err != nil {
				return err
			}
			buffer = buffer[:0]
		}
		if e == nil {
			return nil
		}
	}
}

func (s *Server) logRequest(r *http.Request) (*logRequest, error) {
	q := &logRequest{query: logs.Query{Lines: -1}, run: r.Form.Get("run")}
	var err error
	if q.names, err = someNames(r); err != nil {
		return nil, err
	}
	if q.query.Lines, err = lineCount(r); err != nil {
		return nil, err
	}
	if q.query.Follow, err = flag(r, "follow", false); err != nil {
		return nil, err
	}
	if q.query.Raw, err = flag(r, "raw", false); err != nil {
		return nil, err
	}
	if text := r.Form.Get("since"); text != "" {
		if q.query.Since, err = parseSince(text, time.Now()); err != nil {
			return nil, badRequest("write it as 10m or 2026-11-21T07:20:45Z", "parameter since: %v", err)
		}
	}
	if text := r.Form.Get("grep"); text != "" {
		if q.query.Grep, err = regexp.Compile(text); err != nil {
			return nil, badRequest("see https://pkg.go.dev/regexp/syntax", "parameter grep: %v", err)
		}
	}
	if n, byNumber := runNumber(q.run); q.run != "" && (byNumber && n > 0 || !byNumber && !isRunID(q.run)) {
		return nil, badRequest("0 is the newest run, -1 the one before, or give a run's id as in the history", "parameter run: no run: %q", q.run)
	} else if q.query.Follow && q.run != "" && q.run != "0" {
		return nil, badRequest("leave out one of the two", "only the newest run can be followed, not run %s", q.run)
	}
	if _, resumes := r.Form["cursor"]; resumes {
		q.cursors = map[string]*logs.Cursor{}
	}
	for text := range strings.FieldsSeq(strings.Join(r.Form["cursor"], " ")) {
		name, place, ok := cutLast(text, ":")
		c, err := logs.ParseCursor(place)
		if !ok || err != nil {
			return nil, badRequest("it is the cursor of a line", "parameter cursor: not a cursor: %q", text)
		}
		q.cursors[name] = &c
	}
	return q, nil
}

// lineCount returns the parameter lines, -1 for all.
func lineCount(r *http.Request) (int, error) {
	text := r.Form.Get("lines")
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badRequest("leave it out for all lines", "parameter lines: not a number of lines: %q", text)
	}
	return n, nil
}

// parseSince reads a time, or how long before now it was.
func parseSince(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("neither a duration nor a time: %q", text)
	}
	return t, nil
}

// runNumber returns a number of a run, unless text is an id.
func runNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && !isRunID(text)
}

func isRunID(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// outputs asks for the output of what names stand for.
func (s *Server) outputs(ctx context.Context, names []string, noneToo bool) ([]procs.Output, error) {
	type result struct {
		all []procs.Output
		err error
	}
	got, err := ask(ctx, s, func() result {
		all, err := s.options.Supervisor.Outputs(names, noneToo)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	return got.all, err
}

// watchInstances has a token put into added, if there is room, whenever there is another instance, or log of one.
func (s *Server) watchInstances(added chan<- struct{}) (cancel func()) {
	var stop func() // on the loop only
	s.options.Post(func() {
		stop = s.options.Supervisor.WatchInstances(func() {
			select {
			case added <- struct{}{}:
			default:
			}
		})
	})
	return func() { s.options.Post(func() { stop() }) }
}

// wanted tells where the reading begins in each output.
func (s *Server) wanted(ctx context.Context, q *logRequest, outputs []procs.Output) ([]logs.Wanted, error) {
	var spans map[string]*logs.Span
	if q.run != "" && q.cursors == nil {
		var err error
		if spans, err = s.spans(ctx, q.run, outputs); err != nil {
			return nil, err
		}
	}
	var all []logs.Wanted
	for _, o := range outputs {
		for _, which := range o.Capture.Apart() {
			w := logs.Wanted{Capture: o.Capture, Stream: which, Resume: q.cursors[logName(o.Instance, which)]}
			w.Fresh = q.cursors != nil && w.Resume == nil
			if spans != nil {
				span := spans[o.Instance]
				if span == nil {
					continue
				}
				if w.Span = span; which == logs.Stderr { // places are known in the log of standard output
					w.Span = &logs.Span{ID: span.ID, From: span.From, To: span.To}
				}
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// logName returns what cursors in a log are called by. No instance has a name with a colon.
func logName(instance string, which logs.Stream) string {
	if which == logs.Stderr {
		return instance + ":stderr"
	}
	return instance
}

func fresh(outputs []procs.Output) []logs.Wanted {
	var all []logs.Wanted
	for _, o := range outputs {
		for _, which := range o.Capture.Apart() {
			all = append(all, logs.Wanted{Capture: o.Capture, Stream: which, Fresh: true})
		}
	}
	return all
}

// spans finds a run of each output in the event log: by its id, or counted back from the newest one. Who has had no such run has none.
func (s *Server) spans(ctx context.Context, run string, outputs []procs.Output) (map[string]*logs.Span, error) {
	s.flushEvents(ctx)
	runs := map[string][]*logs.Span{} // attempts at one among them
	for _, o := range outputs {
		runs[o.Instance] = nil
	}
	byID, failed := map[string]*logs.Span{}, map[*logs.Span]bool{}
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			return nil, err
		}
		known, ok := runs[e.Instance]
		if !ok || e.Run == "" {
			continue
		}
		span := byID[e.Run]
		if span == nil {
			span = &logs.Span{ID: e.Run, From: e.At}
			byID[e.Run] = span
			if n := len(known); n > 0 {
				known[n-1].To = e.At
			}
			runs[e.Instance] = append(known, span)
		}
		if e.Kind == eventlog.NoStart {
			failed[span] = true
		}
		if e.Kind != eventlog.Print || span.Begin != nil {
			continue
		}
		if c, err := logs.ParseCursor(e.Place); err == nil {
			span.Begin = &c
			for _, earlier := range known {
				if earlier != span && earlier.End == nil {
					earlier.End = &c
				}
			}
		}
	}
	back, byNumber := runNumber(run)
	found := map[string]*logs.Span{}
	for name, all := range runs {
		all = slices.DeleteFunc(all, func(span *logs.Span) bool { return failed[span] && span.Begin == nil })
		for i, span := range all {
			if byNumber && i == len(all)-1+back || !byNumber && span.ID == run {
				found[name] = span
			}
		}
	}
	if len(found) == 0 {
		return nil, &control.Error{Status: http.StatusNotFound, Message: "the event log has no such run: " + run,
			Remedy: "see `superd ctl history` for the runs that it has"}
	}
	return found, nil
}
