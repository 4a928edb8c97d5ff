package server

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs"
	"superd/procs/probe"
)

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	brief, err := flag(r, "brief", false)
	if err != nil {
		return err
	}
	if brief {
		line, err := s.briefs(r.Context(), r.Form["name"])
		if err == nil {
			s.answerJSON(w, http.StatusOK, line)
		}
		return err
	}
	all, err := s.instances(r.Context(), r.Form["name"])
	if err != nil {
		return err
	}
	s.sendStatuses(w, all)
	return nil
}

// sendStatuses answers with a JSON array on one line. What is to be gathered of many instances takes as long as reading it does: a client
// reads one part while the next are gathered.
func (s *Server) sendStatuses(w http.ResponseWriter, all []procs.Status) {
	w.Header().Set("Content-Type", "application/json")
	client := http.NewResponseController(w)
	for part, last := range s.statuses(all) {
		if last && len(all) <= statusPart {
			w.Header().Set("Content-Length", strconv.Itoa(len(part)))
		}
		_ = client.SetWriteDeadline(time.Now().Add(s.stall))
		_, err := w.Write(part)
		if err == nil && !last {
			err = client.Flush()
		}
		if err != nil {
			return // that the client has gone concerns nobody
		}
	}
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

	line, err := s.snapshot(ctx, r.Form["name"], brief)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for err == nil && s.sendLine(w, line) == nil {
		if !sleep(ctx, watchInterval) || !received(ctx, changed) {
			break
		}
		line, err = s.snapshot(ctx, r.Form["name"], brief)
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

// sendLine sends one line of a stream.
func (s *Server) sendLine(w http.ResponseWriter, line []byte) error {
	client := http.NewResponseController(w)
	if err := client.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	return client.Flush()
}

// snapshot returns the status of the instances that names stand for as a line of JSON.
func (s *Server) snapshot(ctx context.Context, names []string, brief bool) (line []byte, err error) {
	if brief {
		return s.briefs(ctx, names)
	}
	all, err := s.instances(ctx, names)
	if err != nil {
		return nil, err
	}
	for part := range s.statuses(all) {
		line = append(line, part...)
	}
	return line, nil
}

// instances asks for what the supervisor knows of the instances that names stand for.
func (s *Server) instances(ctx context.Context, names []string) ([]procs.Status, error) {
	return askFor(ctx, s, names, s.options.Supervisor.Status)
}

// briefs is snapshot in brief.
func (s *Server) briefs(ctx context.Context, names []string) (line []byte, err error) {
	all, err := askFor(ctx, s, names, s.options.Supervisor.Brief)
	if err != nil {
		return nil, err
	}
	const usual = 64 // bytes of an instance
	return append(appendBriefs(make([]byte, 0, usual*(len(all)+1)), all), '\n'), nil
}

// askFor has the loop look for what names stand for.
func askFor[T any](ctx context.Context, s *Server, names []string, look func(names []string) ([]T, error)) ([]T, error) {
	type result struct {
		all []T
		err error
	}
	got, err := ask(ctx, s, func() result {
		all, err := look(names)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	return got.all, err
}

// statuses adds to what the supervisor knows what the kernel knows of each main process, and the newest line of its log, and returns it as a line
// with a JSON array, in parts that are valid until the next one; true with the last. Several look at processes at a time, each for a part of its own.
func (s *Server) statuses(all []procs.Status) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		captures := make([]*logs.Capture, len(all))
		for i := range all {
			captures[i] = all[i].Capture
		}
		lines := logs.LastLines(captures, linePatience)
		count := max(1, (len(all)+statusPart-1)/statusPart)
		if count == 1 {
			yield(s.appendStatuses(nil, all, lines, 0), true)
			return
		}
		quit := make(chan struct{})
		defer close(quit)
		var gathered [maxLooks]chan []byte
		for worker := range gathered {
			gathered[worker] = make(chan []byte)
			go func() {
				const usual = 512 // bytes of an instance
				now, next := make([]byte, 0, usual*statusPart), make([]byte, 0, usual*statusPart)
				for n := worker; n < count; n += maxLooks {
					now, next = s.appendStatuses(next[:0], all, lines, n), now // whoever takes one is done with the one before
					select {
					case gathered[worker] <- now:
					case <-quit:
						return
					}
				}
			}()
		}
		for n := range count {
			if !yield(<-gathered[n%maxLooks], n == count-1) {
				return
			}
		}
	}
}

// appendStatuses appends the part of that number, the first one 0. Only a few look at processes at a time.
func (s *Server) appendStatuses(part []byte, all []procs.Status, lines []string, number int) []byte {
	s.looks <- struct{}{}
	defer func() { <-s.looks }()
	begin := number * statusPart
	end := min(begin+statusPart, len(all))
	if begin == 0 {
		part = append(part, '[')
	}
	for i := begin; i < end; i++ {
		if i > 0 {
			part = append(part, ',')
		}
		st := status(&all[i], lines[i])
		if c := all[i].Capture; c != nil {
			st.DroppedBytes, st.DroppedLines = c.Dropped()
			if o := c.Outage(); o != nil {
				st.LogOutage = &control.LogOutage{Since: o.Since, Reason: o.Reason, Drops: o.Drops}
			}
		}
		part = appendStatus(part, &st)
	}
	if end == len(all) {
		part = append(part, "]\n"...)
	}
	return part
}

func status(st *procs.Status, lastLine string) control.Status {
	out := control.Status{
		Name: st.Name, Program: st.Program, Groups: st.Groups, State: st.State.String(), Ready: st.Ready, Healthy: st.Healthy,
		Pid: present(st.Pid), Restarts: st.Restarts,
		LogFile: present(st.LogFile), LastLine: present(lastLine), Reason: present(st.Reason), StatusText: present(st.StatusText),
	}
	if c := st.Check; c != nil {
		out.HealthCheck = &control.HealthCheck{At: c.At, Took: c.Took.Seconds(), Reason: present(c.Reason), Failures: c.Failures}
		if c.Outcome != probe.Void {
			out.HealthCheck.Passed = new(c.Outcome == probe.Passed)
		}
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
