package procs

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/logs"
	"superd/procs/probe"
)

// A Status tells what one instance does and why.
type Status struct {
	Name       string // instance: web, or web@2
	Program    string
	Groups     []string
	State      State
	Ready      bool
	Healthy    *bool  // nil without a health check, and before one has ended
	StatusText string // what it has said of itself; empty if nothing
	Check      *Check // the last check of its health; nil before one
	Pid        int    // 0 without a main process
	StartTicks uint64 // start time of the main process in clock ticks since boot, field 22 of /proc/pid/stat
	Since      time.Time
	Uptime     time.Duration // of the main process; 0 without one
	Restarts   int           // automatic ones since the operator's last start
	Exit       *ExitStatus   // how the last run ended; nil before the first end
	NextStart  *time.Duration
	LogFile    string
	Capture    *logs.Capture // whose newest line [logs.LastLines] reads, off the loop
	Reason     string
	WantedUp   bool
}

// A Check is what came of a health check.
type Check struct {
	At       time.Time
	Took     time.Duration
	Outcome  probe.Outcome
	Reason   string // why it did not pass
	Failures int    // in a row
}

// An ExitStatus tells how a run ended.
type ExitStatus struct {
	Code   int    // exit code; meaningless when a signal ended it or it is not known
	Signal string // "SIGKILL"; "" when it exited
	At     time.Time
	Known  bool
	signal int           // its number
	at     time.Duration // on the loop's clock
}

// success reports whether a run of the program ended well.
func (e *ExitStatus) success(p *config.Program) bool {
	return e.Known && e.Signal == "" && slices.Contains(p.SuccessExitCodes, e.Code)
}

// signalName returns SIGTERM, SIGRTMIN+3 and so on.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	const rtMin = 34 // as the C library counts: it keeps 32 and 33 to itself. Source: man 7 signal
	return fmt.Sprintf("SIGRTMIN+%d", int(sig)-rtMin)
}

// An Info is what superd tells about itself.
type Info struct {
	Pid          int
	Started      time.Time
	Uptime       time.Duration
	Programs     int // instances
	Running      int
	ShuttingDown bool
}

// Info returns what superd tells about itself.
func (s *Supervisor) Info() Info {
	return Info{
		Pid:          s.options.Pid,
		Started:      s.wallAt(s.startedAt),
		Uptime:       s.loop.Now() - s.startedAt,
		Programs:     len(s.instances),
		Running:      s.counts[Running],
		ShuttingDown: s.shutdown != nil,
	}
}

// Status returns the status of the instances that names select, all of them for no names, by name. A name is a
// program, an instance, a group or a shell glob; one that selects nothing is an [UnknownNameError].
func (s *Supervisor) Status(names []string) ([]Status, error) {
	selected, err := s.selectInstances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Status, 0, len(selected))
	for _, in := range selected {
		all = append(all, in.status())
	}
	return all, nil
}

// A Brief is the part of a [Status] that costs nothing to find out.
type Brief struct {
	Name  string
	State State
	Pid   int // 0 without a main process
}

// Brief is [Supervisor.Status] in brief.
func (s *Supervisor) Brief(names []string) ([]Brief, error) {
	selected, err := s.selectInstances(names)
	if err != nil {
		return nil, err
	}
	all := make([]Brief, 0, len(selected))
	for _, in := range selected {
		all = append(all, Brief{in.name, in.machine.state, in.pid()})
	}
	return all, nil
}

// pid returns the number of the main process, 0 without one.
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
		Name:     in.name,
		Program:  in.program.Name,
		Groups:   in.program.Groups,
		State:    m.state,
		Ready:    in.ready(),
		Since:    in.sup.wallAt(in.sinceAt),
		Restarts: m.restarts,
		LogFile:  in.capture.Path(),
		Capture:  &in.capture,
		Reason:   in.reason(),
		WantedUp: m.wanted.up,
	}
	if in.lastExit != nil {
		exit := *in.lastExit
		exit.At = in.sup.wallAt(exit.at)
		st.Exit = &exit
	}
	if run := in.run; run != nil && run.process != nil {
		st.Pid = run.process.Pid()
		st.StartTicks = run.id.Start
		st.Uptime = now - run.startedAt
		st.StatusText = run.statusText
		if m := run.monitor; m != nil {
			st.Healthy = m.healthy()
			if last := m.last; last != nil {
				st.Check = &Check{At: in.sup.wallAt(last.At), Took: last.Took, Outcome: last.Outcome, Reason: last.Reason, Failures: m.health.FailuresInRow()}
			}
		}
	}
	if t := in.restartTimer; t != nil {
		left := max(t.Due()-now, 0)
		st.NextStart = &left
	} else if _, left, ok := in.nextRun(); ok {
		st.NextStart = &left
	}
	return st
}

// wallAt shows a time on the loop's clock on the wall clock. It is computed anew in each turn, so that it stays right when the wall clock is
// stepped.
func (s *Supervisor) wallAt(at time.Duration) time.Time {
	return s.loop.WallAt(at)
}
