package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	brief, err := flag(r, "brief", false)
	if err != nil {
		return err
	}
	all, err := s.snapshot(r.Context(), r.Form["name"], brief)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, all)
}

// watch sends the status now and whenever something has changed, an array on a line each time, until the
// client goes away, does not read for a while, or superd ends.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) error {
	brief, err := flag(r, "brief", false)
	if err != nil {
		return err
	}
	ctx := r.Context()
	changed := make(chan struct{}, 1)
	cancel := s.watchChanges(changed)
	defer cancel()

	all, err := s.snapshot(ctx, r.Form["name"], brief)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for err == nil && s.sendLine(w, all) == nil {
		if !sleep(ctx, watchInterval) || !received(ctx, changed) {
			break
		}
		all, err = s.snapshot(ctx, r.Form["name"], brief)
	}
	return nil // the stream has begun: all it can do is end
}

// sleep waits for d and reports false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool { return received(ctx, time.After(d)) }

// received waits for a value and reports false if ctx is done before.
func received[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// watchChanges has a token put into changed, if there is room, whenever something has changed.
func (s *Server) watchChanges(changed chan<- struct{}) (cancel func()) {
	var stop func() // on the loop only
	s.options.Post(func() {
		stop = s.options.Supervisor.Watch(func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	})
	return func() { s.options.Post(func() { stop() }) }
}

// sendLine sends v as one line of a stream.
func (s *Server) sendLine(w http.ResponseWriter, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	client := http.NewResponseController(w)
	if err := client.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
		return err
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return err
	}
	return client.Flush()
}

// snapshot returns a []control.Status, or a []control.Brief.
func (s *Server) snapshot(ctx context.Context, names []string, brief bool) (any, error) {
	type result struct {
		all []procs.Status
		err error
	}
	got, err := ask(ctx, s, func() result {
		all, err := s.options.Supervisor.Status(names)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	switch {
	case err != nil:
		return nil, err
	case brief:
		return briefs(got.all), nil
	}
	return s.statuses(got.all), nil
}

func briefs(all []procs.Status) []control.Brief {
	list := make([]control.Brief, len(all))
	for i, st := range all {
		list[i] = control.Brief{Name: st.Name, State: st.State.String(), Pid: present(st.Pid)}
	}
	return list
}

// statuses adds to what the supervisor knows what the kernel knows of each main process, and the newest line of its log.
func (s *Server) statuses(all []procs.Status) []control.Status {
	captures := make([]*logs.Capture, len(all))
	for i := range all {
		captures[i] = all[i].Capture
	}
	lines := logs.LastLines(captures, linePatience)
	s.looks <- struct{}{}
	defer func() { <-s.looks }()
	list := make([]control.Status, len(all))
	for i := range all {
		list[i] = status(&all[i], lines[i])
		if captures[i] != nil {
			list[i].DroppedBytes, list[i].DroppedLines = captures[i].Dropped()
		}
	}
	return list
}

func status(st *procs.Status, lastLine string) control.Status {
	out := control.Status{
		Name: st.Name, Program: st.Program, Groups: st.Groups, State: st.State.String(), Ready: st.Ready, Healthy: st.Healthy,
		Pid: present(st.Pid), Restarts: st.Restarts,
		LogFile: present(st.LogFile), LastLine: present(lastLine), Reason: present(st.Reason),
	}
	if st.Capture != nil {
		out.Stderr = st.Capture.StderrPath()
		out.LogSink = string(st.Capture.Sink())
	}
	if out.Groups == nil {
		out.Groups = []string{}
	}
	if !st.Since.IsZero() {
		out.Since = &st.Since
	}
	if st.NextStart != nil {
		out.NextIn = new(st.NextStart.Seconds())
	}
	if e := st.Exit; e != nil {
		out.Exit = &control.Exit{Signal: present(e.Signal), At: e.At, Known: e.Known}
		if e.Known && e.Signal == "" {
			out.Exit.Code = &e.Code
		}
	}
	if st.Pid != 0 {
		out.Uptime = new(st.Uptime.Seconds())
		if p, err := procs.ReadProcess(st.Pid); err == nil && p.Start == st.StartTicks {
			out.CPU = new(p.CPU.Seconds())
			out.RSS = &p.RSS
		}
	}
	return out
}

// present returns a pointer to v, nil if v says nothing.
func present[T comparable](v T) *T {
	var nothing T
	if v == nothing {
		return nil
	}
	return &v
}
