package server

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"superd/control"
	"superd/internal/escape"
	"superd/internal/procfs"
	"superd/logs"
	"superd/logs/follow"
	"superd/procs"
	"superd/procs/fsm"
	"superd/procs/host"
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
	all, pids, err := s.instances(r.Context(), r.Form["name"])
	if err != nil {
		return err
	}
	s.sendStatuses(w, all, pids)
	return nil
}

// sendStatuses answers with a JSON array on one line. It sends the array in parts, so that the
// client reads one part while the next are collected.
func (s *Server) sendStatuses(w http.ResponseWriter, all []procs.Status, pids []int) {
	w.Header().Set("Content-Type", mediaJSON)
	client := http.NewResponseController(w)
	for part, last := range s.statuses(all, pids) {
		if last && len(all) <= statusPart {
			w.Header().Set("Content-Length", strconv.Itoa(len(part)))
		}
		_ = client.SetWriteDeadline(time.Now().Add(s.writeTimeout))
		_, err := w.Write(part)
		if err == nil && !last {
			err = client.Flush()
		}
		if err != nil {
			return // an error means that the client is gone
		}
	}
}

// watch sends the status now and after each change, one array per line, until the client is gone or
// stops reading, or superd ends.
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
	w.Header().Set("Content-Type", mediaLines)
	for err == nil && s.sendLine(w, line) == nil {
		if !sleep(ctx, watchInterval) || !received(ctx, changed) {
			break
		}
		line, err = s.snapshot(ctx, r.Form["name"], brief)
	}
	return nil // the stream has begun, so no error can be returned
}

// sleep waits for d and returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool { return received(ctx, time.After(d)) }

// received waits for a value and returns false if ctx is done first.
func received[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// watchChanges puts a token into changed, if there is room, after each change.
func (s *Server) watchChanges(changed chan<- struct{}) (cancel func()) {
	var stop func() // used on the loop only
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
	if err := client.SetWriteDeadline(time.Now().Add(s.writeTimeout)); err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	return client.Flush()
}

// snapshot returns the status of the instances that match names as a line of JSON.
func (s *Server) snapshot(ctx context.Context, names []string, brief bool) (line []byte, err error) {
	if brief {
		return s.briefs(ctx, names)
	}
	all, pids, err := s.instances(ctx, names)
	if err != nil {
		return nil, err
	}
	for part := range s.statuses(all, pids) {
		line = append(line, part...)
	}
	return line, nil
}

// instances returns what the supervisor knows about the instances that match names, and the pids of
// all main processes.
func (s *Server) instances(ctx context.Context, names []string) (all []procs.Status, pids []int, err error) {
	all, err = listOnLoop(ctx, s, names, func(names []string) ([]procs.Status, error) {
		pids = s.options.Supervisor.MainPids()
		return s.options.Supervisor.Status(names)
	})
	if err != nil {
		return nil, nil, err // if ctx is done, the loop may still write pids
	}
	return all, pids, nil
}

// briefs is snapshot for brief statuses.
func (s *Server) briefs(ctx context.Context, names []string) (line []byte, err error) {
	all, err := listOnLoop(ctx, s, names, s.options.Supervisor.Brief)
	if err != nil {
		return nil, err
	}
	line, err = escape.Marshal(briefStatuses(all))
	return append(line, '\n'), err
}

// briefStatuses returns brief statuses in the form of answers.
func briefStatuses(all []procs.Brief) []control.Brief {
	sent := make([]control.Brief, len(all))
	for i, b := range all {
		sent[i] = control.Brief{Name: b.Name, State: b.State.String(), Pid: present(b.Pid)}
	}
	return sent
}

// listOnLoop calls look for names on the loop.
func listOnLoop[T any](ctx context.Context, s *Server, names []string, list func(names []string) ([]T, error)) ([]T, error) {
	type result struct {
		all []T
		err error
	}
	got, err := onLoop(ctx, s, func() result {
		all, err := list(names)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	return got.all, err
}

// statuses adds kernel data about each process tree and the newest log line to the statuses of the
// supervisor. It yields one line with a JSON array, in parts that are valid until the next one; the
// flag is true with the last part. pids are those of all main processes. Several goroutines work at
// once, each on a different part.
func (s *Server) statuses(all []procs.Status, pids []int) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		outputs := make([]follow.Log, len(all))
		for i := range all {
			if c := all[i].Collector; all[i].HasRun && c != nil {
				outputs[i] = c.Log(logs.Stdout)
			}
		}
		lines := follow.LastLines(outputs, lineTimeout)
		usages := s.usages(all, pids)
		count := max(1, (len(all)+statusPart-1)/statusPart)
		if count == 1 {
			yield(s.appendStatuses(nil, all, lines, usages, 0), true)
			return
		}
		quit := make(chan struct{})
		defer close(quit)
		var gathered [maxStatReads]chan []byte
		for worker := range gathered {
			gathered[worker] = make(chan []byte)
			go func() {
				const usual = 512 // bytes for one instance
				now, next := make([]byte, 0, usual*statusPart), make([]byte, 0, usual*statusPart)
				for n := worker; n < count; n += maxStatReads {
					// The receiver of a part no longer uses the previous one.
					now, next = s.appendStatuses(next[:0], all, lines, usages, n), now
					select {
					case gathered[worker] <- now:
					case <-quit:
						return
					}
				}
			}()
		}
		for n := range count {
			if !yield(<-gathered[n%maxStatReads], n == count-1) {
				return
			}
		}
	}
}

// usages returns the resource usage of the instances beside their main processes. Few goroutines
// read processes at the same time.
func (s *Server) usages(all []procs.Status, pids []int) []host.TreeUsage {
	mains := make([]host.MainProcess, len(all))
	for i := range all {
		mains[i] = host.MainProcess{Instance: all[i].Name, Pid: all[i].Main.Pid}
	}
	s.statReads <- struct{}{}
	defer func() { <-s.statReads }()
	return s.options.TreeUsages(mains, pids)
}

// appendStatuses appends the part with that number, counted from 0. Few goroutines read processes
// at the same time.
func (s *Server) appendStatuses(part []byte, all []procs.Status, lines []string, usages []host.TreeUsage, number int) []byte {
	s.statReads <- struct{}{}
	defer func() { <-s.statReads }()
	begin := number * statusPart
	end := min(begin+statusPart, len(all))
	if begin == 0 {
		part = append(part, '[')
	}
	for i := begin; i < end; i++ {
		if i > 0 {
			part = append(part, ',')
		}
		st := status(&all[i], lines[i], usages[i])
		if c := all[i].Collector; c != nil {
			st.DroppedBytes, st.DroppedLines = c.Dropped()
			if o := c.Outage(); o != nil {
				st.LogOutage = &control.LogOutage{Since: o.Since, Reason: o.Reason, Drops: o.Dropping}
			}
		}
		text, err := escape.Marshal(&st)
		if err != nil { // such as for a year beyond 9999
			text = []byte("null")
		}
		part = append(part, text...)
	}
	if end == len(all) {
		part = append(part, "]\n"...)
	}
	return part
}

func status(st *procs.Status, lastLine string, usage host.TreeUsage) control.Status {
	out := control.Status{
		Name: st.Name, Program: st.Program, State: st.State.String(), Ready: st.State == fsm.Running, Healthy: st.Healthy,
		Pid: present(st.Main.Pid), Restarts: st.Restarts.Count,
		LogFile: present(st.LogFile), LastLine: present(lastLine), Reason: present(st.Reason),
		ReasonKind: present(st.ReasonKind.String()),
		StatusText: present(st.StatusText), SandboxWarnings: st.Main.Sandbox, WatchProblem: st.Restarts.WatchProblem,
	}
	if p := st.Definition; p != nil {
		out.Groups, out.Autostart, out.Enablement = p.Groups, p.Autostart, string(p.Enablement)
	}
	if c := st.Check; c != nil {
		out.HealthCheck = &control.HealthCheck{At: c.At, Took: c.Took.Seconds(), Reason: present(c.Reason), Failures: c.Failures}
		if c.Outcome != probe.Void {
			out.HealthCheck.Passed = new(c.Outcome == probe.Passed)
		}
	}
	if st.Collector != nil {
		out.Stderr = st.Collector.StderrPath()
		out.LogSink = string(st.Collector.Sink())
	}
	if o := st.Roll; o != nil {
		out.Rolling = &control.Rolling{
			Stage: string(o.Stage), Restarted: o.Restarted, Instances: o.Replicas, Extra: o.Extra, Failure: present(o.Failure), Waits: present(o.Waits),
		}
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
	out.FlappingSince = st.Restarts.FlappingSince
	if l := st.LastReload; l != nil {
		out.LastReload = &control.LastReload{At: l.At, OK: l.OK, Outcome: l.Outcome}
	}
	if st.Main.Pid != 0 {
		out.Uptime = new(st.Main.Uptime.Seconds())
		if p, err := procfs.ReadStat(st.Main.Pid); err == nil && p.Start == st.Main.Start {
			out.CPU = new((p.CPU + p.WaitedCPU + usage.CPU).Seconds())
			out.RSS = new(p.RSS + usage.RSS)
		}
	}
	return out
}

// present returns a pointer to v, nil for the zero value.
func present[T comparable](v T) *T {
	var nothing T
	if v == nothing {
		return nil
	}
	return &v
}
