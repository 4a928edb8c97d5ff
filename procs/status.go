package procs

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/logs"
	"superd/procs/fsm"
	"superd/procs/probe"
)

// A Status is the state of one instance, and its reason.
type Status struct {
	Name       string // instance: web, or web@2
	Program    string
	Groups     []string
	State      fsm.State
	Ready      bool
	Healthy    *bool  // nil without health checks, and before the first result
	StatusText string // what the program reports of itself (STATUS=)
	Check      *Check // last health check; nil before the first
	Main       MainStatus
	Since      time.Time
	Restarts   int         // automatic restarts since the operator's last start
	Exit       *ExitStatus // how the last run ended; nil before the first end
	NextStart  *time.Duration
	LogFile    string
	Collector  *logs.Collector // [logs.LastLines] reads its newest line, off the loop
	// It has run, so the newest line in its log is not from an earlier superd
	HasRun     bool
	Reason     string
	ReasonKind fsm.ReasonKind
	WantedUp   bool
}

// A MainStatus is the status of the main process of an instance. The zero value: it has none.
type MainStatus struct {
	Pid    int
	Start  uint64 // clock ticks since boot, field 22 of /proc/pid/stat
	Uptime time.Duration
}

// A Check is the result of a health check.
type Check struct {
	At       time.Time
	Took     time.Duration
	Outcome  probe.Outcome
	Reason   string // why it did not pass
	Failures int    // consecutive failures
}

// An ExitStatus is how a run ended.
type ExitStatus struct {
	Code   int    // exit code; meaningless after a signal, or if unknown
	Signal string // "SIGKILL"; "" after an exit
	At     time.Time
	Known  bool
	signal int           // its number
	at     time.Duration // on the loop's clock
}

// exit returns the status as the machine has it; the zero value without one.
func (e *ExitStatus) exit() fsm.Exit {
	if e == nil {
		return fsm.Exit{}
	}
	return fsm.Exit{Known: e.Known, Code: e.Code, Signal: e.signal}
}

// signalName returns the name of a signal: SIGTERM, SIGRTMIN+3.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	const rtMin = 34 // as in the C library, which reserves 32 and 33. Source: signal(7)
	return fmt.Sprintf("SIGRTMIN+%d", int(sig)-rtMin)
}

// An Info is the status of superd itself.
type Info struct {
	Pid          int
	Started      time.Time
	Uptime       time.Duration
	Programs     int // number of instances
	Running      int
	ShuttingDown bool
}

// Info returns the status of superd itself.
func (s *Supervisor) Info() Info {
	return Info{
		Pid:          s.options.Identity.Pid,
		Started:      s.wallAt(s.startedAt),
		Uptime:       s.loop.Now() - s.startedAt,
		Programs:     len(s.registry.instances),
		Running:      s.registry.counts[fsm.Running],
		ShuttingDown: s.shutdown.begun,
	}
}

// Status returns the status of the instances that names select, by name; of all without names. A
// name is a program, an instance, a group or a shell glob. One that selects nothing is an
// [UnknownNameError].
func (s *Supervisor) Status(names []string) ([]Status, error) {
	selected, err := s.selector.instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Status, 0, len(selected))
	for _, in := range selected {
		all = append(all, in.status())
	}
	return all, nil
}

// A Brief is the part of a [Status] that costs nothing to compute.
type Brief struct {
	Name  string
	State fsm.State
	Pid   int // 0 without a main process
}

// Brief returns a [Brief] of each instance that names select, as [Supervisor.Status] does.
func (s *Supervisor) Brief(names []string) ([]Brief, error) {
	selected, err := s.selector.instances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Brief, 0, len(selected))
	for _, in := range selected {
		all = append(all, Brief{in.name, in.machine.State(), in.pid()})
	}
	return all, nil
}

// pid returns the pid of the main process, 0 without one.
func (in *instance) pid() int {
	if in.run == nil || in.run.process == nil {
		return 0
	}
	return in.run.process.Pid()
}

func (in *instance) status() Status {
	m := &in.machine
	now := in.sup.loop.Now()
	st := Status{
		Name:      in.name,
		Program:   in.program.Name,
		Groups:    in.program.Groups,
		State:     m.State(),
		Ready:     in.ready(),
		Since:     in.sup.wallAt(in.sinceAt),
		Restarts:  m.Restarts(),
		LogFile:   in.collector.Path(),
		Collector: &in.collector,
		HasRun:    in.run != nil || in.lastExit != nil,
		WantedUp:  m.Desired().Up,
	}
	st.ReasonKind, st.Reason = in.shownReason()
	if in.lastExit != nil {
		exit := *in.lastExit
		exit.At = in.sup.wallAt(exit.at)
		st.Exit = &exit
	}
	if run := in.run; run != nil && run.process != nil {
		st.Main = MainStatus{Pid: run.process.Pid(), Start: run.id.Start, Uptime: now - run.startedAt}
		st.StatusText = run.statusText
		if m := run.monitor; m != nil {
			st.Healthy = m.healthy()
			if last := m.last; last != nil {
				st.Check = &Check{At: in.sup.wallAt(last.At), Took: last.Took, Outcome: last.Outcome, Reason: last.Reason, Failures: m.health.FailuresInRow()}
			}
		}
	}
	if t := in.restartTimer; t != nil {
		remaining := max(t.Due()-now, 0)
		st.NextStart = &remaining
	} else if _, remaining, ok := in.nextRun(); ok {
		st.NextStart = &remaining
	}
	return st
}

// MainPids returns the pids of all main processes.
func (s *Supervisor) MainPids() []int {
	pids := make([]int, 0, len(s.registry.instances))
	for _, in := range s.registry.instances {
		if in.run != nil && in.run.process != nil {
			pids = append(pids, in.run.process.Pid())
		}
	}
	return pids
}
