package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"superd/config"
	"superd/control"
	"superd/internal/procfs"
	"superd/procs"
	"superd/procs/counters"
	"superd/procs/fsm"
	"superd/procs/host"
)

// A Meter reads what metrics need of a supervisor. Its methods run on the loop.
type Meter interface {
	Read() (procs.Info, []procs.Measured)
	Count(readings []counters.Reading, recorded func(unrecorded error)) counters.Totals
}

// recordTimeout bounds how long an answer waits until a successor knows its totals.
const recordTimeout = time.Second

// counters sends what metrics are made of. The processes are read off the loop.
func (s *Server) counters(w http.ResponseWriter, r *http.Request) error {
	var info procs.Info
	all, err := onLoop(r.Context(), s, func() (all []procs.Measured) {
		info, all = s.options.Meter.Read()
		return all
	})
	if err != nil {
		return err // the loop may still write info
	}
	readings, usages := s.readUsages(all)
	recorded := make(chan error, 1)
	totals, err := onLoop(r.Context(), s, func() counters.Totals {
		return s.options.Meter.Count(readings, func(unrecorded error) { recorded <- unrecorded })
	})
	if err != nil {
		return err
	}
	select {
	case <-recorded: // an error means that the disk is full: the totals are right all the same
	case <-time.After(recordTimeout):
	case <-r.Context().Done():
		return r.Context().Err()
	}
	answer := control.Counters{
		Version: s.options.Version.Version, Commit: s.options.Version.Commit,
		Started: info.Started.Round(time.Second), Ready: info.Ready, LoopLag: info.Lag.Seconds(),
		Events: map[string]uint64{}, Instances: make([]control.InstanceCounter, len(all)),
	}
	for kind, n := range s.options.Events.Totals().All {
		answer.Events[string(kind)] = n
	}
	now := info.Started.Add(info.Uptime) // of the turn in which the instances were read
	for i := range all {
		answer.Instances[i] = instanceCounter(&all[i], totals[all[i].Name], usages[i], now)
	}
	return s.answer(w, http.StatusOK, answer)
}

// readUsages reads what the instances use now, with their main processes.
func (s *Server) readUsages(all []procs.Measured) ([]counters.Reading, []host.TreeUsage) {
	mains, pids := make([]host.MainProcess, len(all)), make([]int, len(all))
	for i := range all {
		mains[i], pids[i] = host.MainProcess{Instance: all[i].Name, Pid: all[i].Main.Pid}, all[i].Main.Pid
	}
	s.statReads <- struct{}{} // few goroutines read processes at the same time
	defer func() { <-s.statReads }()
	trees := make(chan []host.TreeUsage, 1)
	go func() { trees <- s.options.TreeUsages(mains, pids) }()
	stats, errs := make([]procfs.Stat, len(all)), make([]error, len(all))
	for i, pid := range pids {
		if pid != 0 {
			stats[i], errs[i] = procfs.ReadStat(pid)
		}
	}
	usages, readings := <-trees, make([]counters.Reading, len(all))
	for i := range all {
		st, u, p := &all[i], &usages[i], &stats[i]
		readings[i] = counters.Reading{
			Instance: st.Name, Pid: st.Main.Pid, Start: st.Main.Start, Ended: st.Counts.CPU,
		}
		if st.Collector != nil {
			readings[i].Written = st.Collector.Written()
		}
		if st.Main.Pid == 0 {
			continue
		}
		if errs[i] != nil || p.Start != st.Main.Start {
			readings[i].Live = -1
			continue
		}
		u.CPU, u.RSS = u.CPU+p.CPU+p.WaitedCPU, u.RSS+p.RSS
		if !p.Dead {
			u.Processes++
		}
		readings[i].Live = u.CPU
	}
	return readings, usages
}

func instanceCounter(st *procs.Measured, total counters.Total, usage host.TreeUsage, now time.Time) control.InstanceCounter {
	c := control.InstanceCounter{
		Name: st.Name, Program: st.Program, Replica: cmp.Or(config.NumberOf(st.Name), 1),
		State: st.State.String(), Healthy: st.Healthy,
		Starts: maps.Collect(st.Counts.Starts.All()), StartFailures: st.Counts.NotStarted,
		Exits: maps.Collect(st.Counts.Exits.All()),
		CPU:   total.CPU.Seconds(), RSS: usage.RSS, Processes: usage.Processes, LogBytes: total.LogBytes,
	}
	if st.Main.Pid != 0 {
		c.MainStarted = new(now.Add(-st.Main.Uptime).Round(time.Second))
	}
	if next := st.NextStart; next != nil && st.State == fsm.Waiting {
		c.ScheduleNext = new(now.Add(*next).Round(time.Second))
	} else if next != nil {
		c.RestartDelay = new(next.Seconds())
	}
	if st.Check != nil {
		c.CheckSeconds = new(st.Check.Took.Seconds())
	}
	if st.Collector != nil {
		c.DroppedBytes, _ = st.Collector.Dropped()
		c.LogFailing = st.Collector.Outage() != nil
	}
	return c
}

// healthTimeout bounds how long the loop may take until superd counts as ill.
const healthTimeout = 5 * time.Second

// healthz answers as long as the loop turns.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.health)
	defer cancel()
	if _, err := onLoop(ctx, s, s.options.Supervisor.Info); err != nil {
		return &control.Error{Status: http.StatusServiceUnavailable,
			Message: "superd's event loop hangs", Remedy: "see superd's log and crash.txt"}
	}
	return s.answer(w, http.StatusOK, control.Health{OK: true})
}

// readyz says whether the instances that match the names are ready; without names, whether superd
// is.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) error {
	answer, status := control.Readiness{NotReady: []string{}}, http.StatusOK
	if len(r.Form["name"]) == 0 {
		info, err := onLoop(r.Context(), s, s.options.Supervisor.Info)
		if err != nil {
			return err
		}
		answer.Ready = info.Ready
	} else {
		all, err := listOnLoop(r.Context(), s, r.Form["name"], s.notReady)
		if err != nil {
			return err
		}
		answer.NotReady = append(answer.NotReady, all...)
		answer.Ready = len(all) == 0
	}
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	return s.answer(w, status, answer)
}

// notReady returns the names of the instances that names select and that are not ready. A name that
// selects none, as that of a program with replicas = 0, is one of them.
func (s *Server) notReady(names []string) (all []string, err error) {
	for _, name := range names {
		selected, err := s.options.Supervisor.Brief([]string{name})
		if err != nil {
			return nil, err
		}
		if len(selected) == 0 {
			all = append(all, name)
		}
		for _, b := range selected {
			if b.State != fsm.Running && !slices.Contains(all, b.Name) {
				all = append(all, b.Name)
			}
		}
	}
	return all, nil
}
