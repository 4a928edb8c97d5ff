package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/logs"
	"superd/logs/follow"
	"superd/logs/segment"
	"superd/procs"
	"superd/procs/eventlog"
)

// writeBytes is the approximate size of one write of an answer.
const writeBytes = 32 << 10

// A logRequest selects lines.
type logRequest struct {
	names []string
	query follow.Query
	run   string // "": any; else a number or an invocation id
	// Where earlier answers ended, by instance; nil for the first request
	cursors map[string]*segment.Cursor
}

// readLogs sends lines of the instances that match the names, one JSON object each. With follow it
// continues with later lines, also of instances that match later.
//
// A follower that does not read stays connected. It keeps a goroutine, is served from files, and is
// informed of what was removed before it was read.
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
	readings, err := s.readings(ctx, q, outputs)
	if err != nil {
		return err
	}
	out := &stream{w: w, client: http.NewResponseController(w)}
	w.Header().Set("Content-Type", mediaLines)
	if q.query.Blocks {
		w.Header().Set("Content-Type", mediaBytes)
	}
	if !q.query.Follow {
		out.stall = s.writeTimeout
	} else if err := out.client.Flush(); err != nil {
		return nil
	}
	reading := follow.NewReading(ctx, q.query)
	defer reading.Close()
	err = reading.Set(readings)
	for ending := false; err == nil; {
		if err = send(reading, q.query.Blocks, out); err != nil || !q.query.Follow || ending {
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
	s.log.Warn("logs not sent completely", "error", err)
	panic(http.ErrAbortHandler) // shows the client that lines are missing
}

// send sends all lines available now.
func send(reading *follow.Reading, blocks bool, out *stream) error {
	buffer := make([]byte, 0, writeBytes)
	appendEntry := (*follow.Entry).AppendJSON
	if blocks {
		appendEntry = (*follow.Entry).AppendBlock
	}
	for {
		e, err := reading.Next()
		if err != nil {
			return err
		}
		if e != nil {
			which := logs.Stdout
			if e.FromStderrLog {
				which = logs.Stderr
			}
			buffer = appendEntry(e, buffer, logName(e.Instance, which))
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
	q := &logRequest{names: names(r), query: follow.Query{Lines: -1}, run: r.Form.Get("run")}
	var err error
	if q.query.Lines, err = lineCount(r); err != nil {
		return nil, err
	}
	for name, value := range map[string]*bool{
		"follow": &q.query.Follow, "raw": &q.query.Raw, "blocks": &q.query.Blocks,
		"skip": &q.query.Skip, "times": &q.query.Times,
	} {
		if *value, err = flag(r, name, false); err != nil {
			return nil, err
		}
	}
	if text := r.Form.Get("since"); text != "" {
		if q.query.Since, err = parseTime(text, time.Now()); err != nil {
			return nil, badParameter("since", timeRemedy, "%v", err)
		}
	}
	if text := r.Form.Get("until"); text != "" {
		switch q.query.Until, err = parseTime(text, time.Now()); {
		case err != nil:
			return nil, badParameter("until", timeRemedy, "%v", err)
		case q.query.Follow:
			return nil, badParameter("until", "remove one of the two",
				"cannot be combined with follow: %q", text)
		case q.query.Until.Before(q.query.Since):
			return nil, badParameter("until", "swap the two", "it is before since: %q", text)
		}
	}
	if text := r.Form.Get("grep"); text != "" {
		if q.query.Grep, err = regexp.Compile(text); err != nil {
			cause := err.Error()
			if e, ok := errors.AsType[*syntax.Error](err); ok {
				cause = e.Code.String()
			}
			return nil, badParameter("grep", "see https://pkg.go.dev/regexp/syntax",
				"not a regular expression: %q: %s", text, cause)
		}
	}
	if n, byNumber := runNumber(q.run); q.run != "" && (byNumber && n > 0 || !byNumber && !isRunID(q.run)) {
		return nil, badParameter("run",
			"0 is the newest run, -1 the one before, or give at least 4 characters of a run's id, as in the history",
			"not a run: %q", q.run)
	} else if q.query.Follow && q.run != "" && q.run != "0" {
		return nil, badRequest("remove one of the two", "only the newest run can be followed, not run %s", q.run)
	}
	if _, resumes := r.Form["cursor"]; resumes {
		q.cursors = map[string]*segment.Cursor{}
	}
	for text := range strings.FieldsSeq(strings.Join(r.Form["cursor"], " ")) {
		name, place, ok := cutLast(text, ":")
		c, err := segment.ParseCursor(place)
		if !ok || err != nil {
			return nil, badParameter("cursor", "use the cursor of a line",
				"not a cursor: %q", text)
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
		return 0, badParameter("lines", "omit it for all lines",
			"not a number of lines: %q", text)
	}
	return n, nil
}

const timeRemedy = "write it as 10m or 2026-11-21T07:20:45Z"

// parseTime parses a time, or a duration before now.
func parseTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("neither a duration nor a time: %q", text)
	}
	return t, nil
}

// runNumber returns the number of a run; ok is false if text is an id.
func runNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && !isRunID(text)
}

// isRunID reports whether text is an invocation id, or a long enough beginning of one.
func isRunID(text string) bool {
	const enough, whole = 4, 32
	return enough <= len(text) && len(text) <= whole && strings.Trim(text, "0123456789abcdef") == ""
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// outputs returns the outputs of the instances that match names.
func (s *Server) outputs(ctx context.Context, names []string, noneToo bool) ([]procs.Output, error) {
	type result struct {
		all []procs.Output
		err error
	}
	got, err := onLoop(ctx, s, func() result {
		all, err := s.options.Supervisor.Outputs(names, noneToo)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	return got.all, err
}

// watchInstances puts a token into added, if there is room, whenever an instance or a log of one is
// added.
func (s *Server) watchInstances(added chan<- struct{}) (cancel func()) {
	var stop func() // used on the loop only
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

// readings returns where to begin reading in each output.
func (s *Server) readings(ctx context.Context, q *logRequest, outputs []procs.Output) ([]follow.Input, error) {
	var spans map[string]*follow.Span
	if q.run != "" && q.cursors == nil {
		var err error
		if spans, err = s.spans(ctx, q.run, outputs); err != nil {
			return nil, err
		}
	}
	var all []follow.Input
	for _, o := range outputs {
		for _, which := range o.Collector.LogStreams() {
			w := follow.Input{Log: o.Collector.Log(which), Resume: q.cursors[logName(o.Instance, which)]}
			w.FromStart = q.cursors != nil && w.Resume == nil
			if spans != nil {
				span := spans[o.Instance]
				if span == nil {
					continue
				}
				// Places are positions in the log of standard output.
				if w.Span = span; which == logs.Stderr {
					w.Span = &follow.Span{ID: span.ID, From: span.From, To: span.To}
				}
			}
			all = append(all, w)
		}
	}
	return all, nil
}

// logName returns the name that cursors use for a log. Names of instances have no colon.
func logName(instance string, which logs.Stream) string {
	if which == logs.Stderr {
		return instance + ":stderr"
	}
	return instance
}

func fresh(outputs []procs.Output) []follow.Input {
	var all []follow.Input
	for _, o := range outputs {
		for _, which := range o.Collector.LogStreams() {
			all = append(all, follow.Input{Log: o.Collector.Log(which), FromStart: true})
		}
	}
	return all
}

// spans finds a run of each output in the event log: by its id, or counted back from the newest. An
// instance without such a run has no entry.
func (s *Server) spans(ctx context.Context, run string, outputs []procs.Output) (map[string]*follow.Span, error) {
	s.flushEvents(ctx)
	runs := map[string][]*follow.Span{} // with failed starts
	for _, o := range outputs {
		runs[o.Instance] = nil
	}
	byID, failed := map[string]*follow.Span{}, map[*follow.Span]bool{}
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			return nil, err
		}
		earlier, ok := runs[e.Instance]
		if !ok || e.Run == "" {
			continue
		}
		span := byID[e.Run]
		if span == nil {
			span = &follow.Span{ID: e.Run, From: e.At}
			byID[e.Run] = span
			if n := len(earlier); n > 0 {
				earlier[n-1].To = e.At
			}
			runs[e.Instance] = append(earlier, span)
		}
		if e.Kind == eventlog.NoStart {
			failed[span] = true
		}
		if e.Kind != eventlog.Print || span.Start != nil {
			continue
		}
		if c, err := segment.ParseCursor(e.Place); err == nil {
			span.Start = &c
			for _, earlier := range earlier {
				if earlier != span && earlier.End == nil {
					earlier.End = &c
				}
			}
		}
	}
	back, byNumber := runNumber(run)
	found, other := map[string]*follow.Span{}, ""
	for name, all := range runs {
		all = slices.DeleteFunc(all, func(span *follow.Span) bool { return failed[span] && span.Start == nil })
		for i, span := range all {
			if byNumber && i == len(all)-1+back {
				found[name] = span
			}
			if !byNumber && strings.HasPrefix(span.ID, run) {
				if other != "" {
					return nil, badParameter("run", "give more characters of its id",
						"several runs begin with %s: %s, %s", run, other, span.ID)
				}
				found[name], other = span, span.ID
			}
		}
	}
	if len(found) == 0 {
		return nil, &control.Error{Status: http.StatusNotFound, Message: "the event log has no such run: " + run,
			Remedy: "see `superd ctl history` for the runs that it has"}
	}
	return found, nil
}
