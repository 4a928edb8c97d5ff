package server

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"path"
	"strconv"
	"time"

	"superd/control"
	"superd/procs"
	"superd/procs/eventlog"
)

// flushPatience is how long an answer waits for the newest events to be written, where the disk stalls.
const flushPatience = time.Second

// events sends the events after a cursor, a line each, and with follow what comes after them.
//
// A follower that does not read is not ended, as with logs: it reads files, and is told what it has missed.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	var cursor uint64
	if text := r.Form.Get("since"); text != "" {
		var err error
		if cursor, err = strconv.ParseUint(text, 10, 64); err != nil {
			return badRequest("it is the cursor of an event; leave it out for all that is kept", "parameter since: not a cursor: %q", text)
		}
	}
	follow, err := flag(r, "follow", false)
	if err != nil {
		return err
	}
	s.flushEvents(r.Context())
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := &stream{w: w, client: http.NewResponseController(w)}
	if !follow {
		out.stall = s.stall
	}
	// What there is goes out in large pieces, what comes then line by line.
	buffered := bufio.NewWriterSize(out, 32<<10)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	for e, err := range s.options.Events.Since(cursor) {
		if err != nil {
			return s.eventsFailed(out, buffered, err)
		}
		if err := lines.Encode(&e); err != nil {
			return nil // the client has gone
		}
		cursor = e.Cursor
	}
	if err := buffered.Flush(); err != nil || !follow {
		return nil
	}
	if err := out.client.Flush(); err != nil {
		return nil
	}
	for e, err := range s.options.Events.Follow(r.Context(), cursor) {
		if err != nil {
			return s.eventsFailed(out, buffered, err)
		}
		if lines.Encode(&e) != nil || buffered.Flush() != nil {
			return nil
		}
	}
	return nil
}

// eventsFailed tells the client that events could not be read: by an error if nothing was sent yet, else by cutting the
// connection.
func (s *Server) eventsFailed(out *stream, buffered *bufio.Writer, err error) error {
	if !out.begun && buffered.Buffered() == 0 {
		return err
	}
	s.log.Warn("events not sent to their end", "error", err)
	panic(http.ErrAbortHandler)
}

// flushEvents has what happened before the request be among the answer. What else is known is written with it, lest the event log be ahead
// of the journal.
func (s *Server) flushEvents(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	s.options.Post(s.options.Supervisor.Write)
	_ = s.options.Events.Flush(ctx) // otherwise the answer is what is written so far
}

// history sends the runs that the event log knows of.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	wanted, err := s.selection(r.Context(), names(r))
	if err != nil {
		return err
	}
	s.flushEvents(r.Context())
	runs := []control.Run{}
	h := historian{runs: &runs, open: map[string]int{}}
	for e, err := range s.options.Events.Since(0) {
		if err != nil {
			return err
		}
		if e.Instance == "" || wanted.has(&e) {
			h.take(&e)
		}
	}
	if err := wanted.unmatched(); err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, runs)
}

// A historian makes runs of events.
type historian struct {
	runs *[]control.Run
	open map[string]int // the runs that have not ended, by invocation id
}

func (h *historian) take(e *eventlog.Event) {
	switch e.Kind {
	case eventlog.Start:
		h.open[e.Run] = len(*h.runs)
		*h.runs = append(*h.runs, control.Run{Name: e.Instance, Program: e.Program, Run: e.Run, Pid: present(e.Pid), Started: &e.At})
	case eventlog.NoStart:
		*h.runs = append(*h.runs, control.Run{Name: e.Instance, Program: e.Program, Run: e.Run, Ended: &e.At, Reason: new("not started: " + e.Reason)})
	case eventlog.Exit:
		run := control.Run{Name: e.Instance, Program: e.Program, Run: e.Run, Pid: present(e.Pid), Started: present(e.Started), Ended: &e.At,
			Duration: e.Duration, CPU: e.CPU, MaxRSS: present(e.MaxRSS), RSSBound: e.RSSBound, Reason: present(e.Reason)}
		if x := e.Exit; x != nil {
			run.Exit = &control.Exit{Code: x.Code, Signal: x.Signal, At: e.At, Known: x.Known}
		}
		if i, ok := h.open[e.Run]; ok {
			delete(h.open, e.Run)
			run.Started = (*h.runs)[i].Started
			(*h.runs)[i] = run
		} else { // its start is too old to be kept
			*h.runs = append(*h.runs, run)
		}
	case eventlog.Superd:
		if e.State == "started" {
			for _, i := range h.open {
				(*h.runs)[i].Reason = new("superd ended before it did")
			}
			clear(h.open)
		}
	}
}

// A selection is what names stand for among events, which may be about instances that are gone.
type selection struct {
	all       bool
	instances map[string]bool           // that there are now
	unknown   []*procs.UnknownNameError // names that stand for nothing now, unless an event bears them
	borne     map[string]bool           // by these names; true: an event does
	globs     []string                  // among them
}

// selection looks names up; without names everything is selected.
func (s *Server) selection(ctx context.Context, names []string) (*selection, error) {
	if len(names) == 0 {
		return &selection{all: true}, nil
	}
	return ask(ctx, s, func() *selection {
		sel := &selection{instances: map[string]bool{}, borne: map[string]bool{}}
		instances, unknown := s.options.Supervisor.Resolve(names)
		for _, name := range instances {
			sel.instances[name] = true
		}
		for _, u := range unknown {
			sel.borne[u.Name] = false
			if procs.IsPattern(u.Name) {
				sel.globs = append(sel.globs, u.Name)
			}
		}
		sel.unknown = unknown
		return sel
	})
}

// has reports whether e is about what was asked for: an instance or a program of a name or glob.
func (sel *selection) has(e *eventlog.Event) bool {
	if sel.all || sel.instances[e.Instance] {
		return true
	}
	some := false
	for _, own := range []string{e.Instance, e.Program} {
		if _, asked := sel.borne[own]; asked {
			some, sel.borne[own] = true, true
		}
		for _, glob := range sel.globs {
			if match, err := path.Match(glob, own); match && err == nil {
				some, sel.borne[glob] = true, true
			}
		}
	}
	return some
}

// unmatched returns an error if a name stands for nothing, neither now nor in an event.
func (sel *selection) unmatched() error {
	for _, u := range sel.unknown {
		if !sel.borne[u.Name] {
			return u
		}
	}
	return nil
}

// why explains the state of what the name stands for.
func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	type result struct {
		all []procs.Facts
		err error
	}
	got, err := ask(r.Context(), s, func() result {
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
			s.log.Warn("explanation without events", "error", err)
			break
		}
		if about[e.Instance] {
			events = append(events, e)
		}
	}
	all := make([]control.Why, len(got.all))
	for i := range got.all {
		f := &got.all[i]
		all[i] = control.Why{Name: f.Name, State: f.State.String(), Text: f.Explain(events)}
	}
	return s.answer(w, http.StatusOK, all)
}
