package server

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config"
	"superd/control"
	"superd/procs/diagnosis"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/selection"
)

// flushTimeout is how long an answer waits until the newest events are written, in case the disk
// stalls.
const flushTimeout = time.Second

// An eventRequest selects events.
type eventRequest struct {
	cursor uint64    // cursor of the event before the first to return
	since  time.Time // zero: any time
	lines  int       // number of last events to return; negative: all
	follow bool
	about  *eventSelection
}

// events sends the events that a request selects, one a line, and with follow the events after
// them.
//
// A follower that does not read stays connected, as with logs: it is served from files, and is
// informed of what it has missed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	q, err := s.eventRequest(r)
	if err != nil {
		return err
	}
	s.flushEvents(r.Context())
	if err := s.checkNames(q.about); err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaLines)
	out := &stream{w: w, client: http.NewResponseController(w)}
	if !q.follow {
		out.stall = s.writeTimeout
	}
	// Existing events are sent in large pieces, later ones line by line.
	buffered := bufio.NewWriterSize(out, 32<<10)
	var line bytes.Buffer
	send := func(e *eventlog.Event) error {
		line.Reset()
		if err := eventlog.Encode(&line, e); err != nil {
			return err
		}
		_, err := buffered.Write(line.Bytes())
		return err
	}
	var last []eventlog.Event // the last events, with some older ones not yet discarded
	for e, err := range s.options.Events.Since(q.cursor) {
		if err != nil {
			return s.eventsFailed(out, buffered, err)
		}
		q.cursor = e.Cursor
		switch {
		case !q.selects(&e):
		case q.lines < 0:
			if send(&e) != nil {
				return nil // the client is gone
			}
		default:
			last = append(last, e)
			if over := len(last) - q.lines; over >= max(q.lines, lastEvents) {
				last = slices.Delete(last, 0, over)
			}
		}
	}
	for _, e := range last[max(0, len(last)-max(q.lines, 0)):] {
		if send(&e) != nil {
			return nil
		}
	}
	if err := buffered.Flush(); err != nil || !q.follow {
		return nil
	}
	if err := out.client.Flush(); err != nil {
		return nil
	}
	for e, err := range s.options.Events.Follow(r.Context(), q.cursor) {
		if err == nil {
			err = s.include(r.Context(), q.about, &e)
		}
		if r.Context().Err() != nil {
			return nil
		}
		if err != nil {
			return s.eventsFailed(out, buffered, err)
		}
		if q.selects(&e) && (send(&e) != nil || buffered.Flush() != nil) {
			return nil
		}
	}
	return nil
}

// lastEvents is the least number of events discarded at once when only the last ones are returned.
const lastEvents = 64

func (s *Server) eventRequest(r *http.Request) (*eventRequest, error) {
	q := &eventRequest{lines: -1}
	text := r.Form.Get("since")
	cursor, err := strconv.ParseUint(text, 10, 64)
	switch {
	case text == "":
	case err == nil:
		q.cursor = cursor
	default:
		if q.since, err = parseTime(text, time.Now()); err != nil {
			return nil, badParameter("since",
				"write the cursor of an event, 10m or 2026-11-21T07:20:45Z; omit it for all events",
				"neither a cursor, nor a duration, nor a time: %q", text)
		}
	}
	if q.lines, err = lineCount(r); err != nil {
		return nil, err
	}
	if q.follow, err = flag(r, "follow", false); err != nil {
		return nil, err
	}
	q.about, err = s.selection(r.Context(), names(r))
	return q, err
}

// selects reports whether q selects an event. A gap is always selected, since its contents are
// unknown.
func (q *eventRequest) selects(e *eventlog.Event) bool {
	return !e.At.Before(q.since) && (e.Kind == eventlog.Gap || q.about.all || q.about.has(e))
}

// checkNames returns an error if a name matches neither an existing instance nor any event.
func (s *Server) checkNames(sel *eventSelection) error {
	if len(sel.unknown) == 0 {
		return nil
	}
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			return err
		}
		sel.has(&e)
	}
	return sel.unmatched()
}

// include adds an instance created after the selection to it, if a requested name matches.
func (s *Server) include(ctx context.Context, sel *eventSelection, e *eventlog.Event) error {
	switch {
	case sel.all:
		return nil
	case e.Kind == eventlog.Reload: // groups may have changed
		clear(sel.checked)
		return nil
	case e.Instance == "" || sel.checked[e.Instance]:
		return nil
	}
	sel.checked[e.Instance] = true
	now, err := s.selection(ctx, sel.names)
	if err == nil && now.instances[e.Instance] {
		sel.add(e.Instance)
	}
	return err
}

// eventsFailed reports to the client that events could not be read: as an error if nothing was sent
// yet, else by closing the connection.
func (s *Server) eventsFailed(out *stream, buffered *bufio.Writer, err error) error {
	if !out.begun && buffered.Buffered() == 0 {
		return err
	}
	s.log.Warn("events not sent completely", "error", err)
	panic(http.ErrAbortHandler)
}

// flushEvents makes sure that the answer includes what happened before the request. It writes the
// journal, too, so that the event log is not ahead of it.
func (s *Server) flushEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	s.options.Post(s.options.Supervisor.Write)
	_ = s.options.Events.Flush(ctx) // on a time-out the answer has the events written so far
}

// history sends the runs that are in the event log.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	sel, err := s.selection(r.Context(), names(r))
	if err != nil {
		return err
	}
	s.flushEvents(r.Context())
	runs := []control.Run{}
	h := runBuilder{runs: &runs, open: map[string]int{}}
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			return err
		}
		if e.Instance == "" || sel.has(&e) {
			h.add(&e)
		}
	}
	if err := sel.unmatched(); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, runs)
}

// A runBuilder builds the runs of instances from events.
type runBuilder struct {
	runs *[]control.Run
	open map[string]int // index of the runs that have not ended, by invocation id
}

func (h *runBuilder) add(e *eventlog.Event) {
	switch e.Kind {
	case eventlog.Start:
		h.open[e.Run] = len(*h.runs)
		*h.runs = append(*h.runs, control.Run{Name: e.Instance, Program: e.Program, Run: e.Run, Pid: present(e.Pid), Started: &e.At})
	case eventlog.NoStart:
		*h.runs = append(*h.runs, control.Run{
			Name: e.Instance, Program: e.Program, Run: e.Run, Ended: &e.At,
			Reason: new("not started: " + e.Reason), ReasonKind: present(e.ReasonKind),
		})
	case eventlog.Exit:
		run := control.Run{Name: e.Instance, Program: e.Program, Run: e.Run, Pid: present(e.Pid), Started: present(e.Started), Ended: &e.At,
			Duration: e.Duration, CPU: e.CPU, MaxRSS: present(e.MaxRSS), RSSBound: e.RSSBound,
			Reason: present(e.Reason), ReasonKind: present(e.ReasonKind)}
		if x := e.Exit; x != nil {
			run.Exit = &control.Exit{Code: x.Code, Signal: x.Signal, At: e.At, Known: x.Known}
		}
		if i, ok := h.open[e.Run]; ok {
			delete(h.open, e.Run)
			if run.Started == nil {
				run.Started = (*h.runs)[i].Started
			}
			(*h.runs)[i] = run
		} else { // its start is no longer in the log
			*h.runs = append(*h.runs, run)
		}
	case eventlog.Superd:
		if e.State == eventlog.Started {
			unfinished := fsm.Reason{Kind: fsm.ReasonSuperdEnded}
			for _, i := range h.open {
				run := &(*h.runs)[i]
				run.Reason, run.ReasonKind = new(unfinished.String()), new(unfinished.Kind.String())
			}
			clear(h.open)
		}
	default: // not about a run
	}
}

// An eventSelection is what names match among events, which may be about instances that no longer
// exist.
type eventSelection struct {
	all       bool
	names     []string
	checked   map[string]bool               // instances already looked up
	instances map[string]bool               // existing instances that match
	programs  map[string]bool               // their programs
	unknown   []*selection.UnknownNameError // names that match no instance, though events may
	matched   map[string]bool               // those names; true if an event matched
	globs     []string                      // the globs among names
}

// selection looks up names; without names it selects everything.
func (s *Server) selection(ctx context.Context, names []string) (*eventSelection, error) {
	if len(names) == 0 {
		return &eventSelection{all: true}, nil
	}
	return onLoop(ctx, s, func() *eventSelection {
		sel := &eventSelection{names: names, checked: map[string]bool{}, instances: map[string]bool{}, programs: map[string]bool{}, matched: map[string]bool{}}
		instances, unknown := s.options.Supervisor.Resolve(names)
		for _, name := range instances {
			sel.add(name)
		}
		for _, u := range unknown {
			sel.matched[u.Name] = false
			if selection.IsPattern(u.Name) {
				sel.globs = append(sel.globs, u.Name)
			}
		}
		sel.unknown = unknown
		return sel
	})
}

// add adds an instance. What is about its whole program, as a rolling restart, is selected, too.
func (sel *eventSelection) add(instance string) {
	sel.instances[instance], sel.programs[config.ProgramOf(instance)] = true, true
}

// has reports whether e is about a selected instance or program.
func (sel *eventSelection) has(e *eventlog.Event) bool {
	if sel.all || sel.instances[e.Instance] || e.Instance == "" && sel.programs[e.Program] {
		return true
	}
	matches := false
	for _, own := range []string{e.Instance, e.Program} {
		if own == "" {
			continue // an event of a whole program, or of none
		}
		matches = matches || slices.Contains(sel.names, own)
		if _, isUnknown := sel.matched[own]; isUnknown {
			matches, sel.matched[own] = true, true
		}
		for _, glob := range sel.globs {
			if match, err := path.Match(glob, own); match && err == nil {
				matches, sel.matched[glob] = true, true
			}
		}
	}
	return matches
}

// unmatched returns an error if a name matched neither an existing instance nor an event.
func (sel *eventSelection) unmatched() error {
	for _, u := range sel.unknown {
		if !sel.matched[u.Name] {
			return u
		}
	}
	return nil
}

// why explains the states of the instances that match the names.
func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	if _, err := requireNames(r); err != nil {
		return err
	}
	type result struct {
		all []diagnosis.Diagnosis
		err error
	}
	got, err := onLoop(r.Context(), s, func() result {
		all, err := s.options.Supervisor.Why(names(r))
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return err
	}
	s.flushEvents(r.Context())
	about := make(map[string]bool, len(got.all))
	for i := range got.all {
		about[got.all[i].Name] = true
	}
	var events []eventlog.Event
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			s.log.Warn("events missing from an explanation", "error", err)
			break
		}
		if about[e.Instance] {
			events = append(events, e)
		}
	}
	all := make([]control.Why, len(got.all))
	for i := range got.all {
		f := &got.all[i]
		all[i] = control.Why{
			Name: f.Name, State: f.State.String(), ReasonKind: present(f.Kind.String()), Text: f.Explain(events),
		}
		if s.options.WhyDown == nil || f.State != fsm.Backoff && f.State != fsm.Failed {
			continue
		}
		if more := s.options.WhyDown(f.Name); more != "" {
			all[i].Text = strings.TrimSuffix(all[i].Text, "\n") + "\n" + more + "\n"
		}
	}
	return s.answer(w, http.StatusOK, all)
}
