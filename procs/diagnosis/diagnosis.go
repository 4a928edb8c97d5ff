// Package diagnosis explains the state of an instance to people: superd gathers a [Diagnosis], and
// [Diagnosis.Explain] makes text of it. The package is pure.
package diagnosis

import (
	"time"

	"superd/config"
	"superd/config/enablement"
	"superd/logs"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/probe"
)

// A Diagnosis is what superd knows about the state of an instance. [Diagnosis.Explain] makes text
// of it.
type Diagnosis struct {
	Name       string
	State      fsm.State
	Now        time.Time // in the time zone of shown times
	Since      time.Time
	Reason     fsm.Reason     // why the state is what it is
	Kind       fsm.ReasonKind // kind of the reason in a [Status]
	Pid        int            // of its main process; 0 without one
	StatusText string         // what the program reports of itself (STATUS=)
	Desired    Desired
	// What blocks its start, one line for each program it waits for
	WaitsFor []string
	// What happens at the moment: a hook, a file that is being opened, leftover processes
	Stage string
	// The rolling restart of its program; empty without one
	Roll      string
	HangsIn   string         // stage in which an earlier start hangs; empty without one
	KillIn    *time.Duration // until SIGKILL; nil: none is due
	Processes Processes
	Health    Health
	Output    Output
	NextStart *time.Duration // until the next automatic start; nil: none is due
	Restarts  Restarts
	Flapping  *time.Time // when it began to flap; nil: it does not
	Schedule  Schedule
	// Why not all changes of the files that it watches are noticed; empty: all are
	WatchProblem string
}

// A Desired is the desired state of an instance, and what follows when it is down.
type Desired struct {
	Up             bool
	By             fsm.Actor
	RestartPending bool // it restarts when it is down
	Removed        bool // it is no longer configured
	OnConnect      bool // it is down, and a connection starts it
	Replaced       bool // it is replaced by a new definition of its name when it is down

	Enablement enablement.Decision // what an operator has decided about its start with superd
}

// A Processes has what is unusual about the processes of an instance.
type Processes struct {
	Unkillable   string                     // describes an unkillable process; empty without one
	Unattributed []host.UnattributedProcess // that may belong to it
	// Why it has no cgroup though others have one; empty if it has one
	NoCgroup string
	Sandbox  []string // what of its sandbox could not be enforced
}

// A Health is the last health check of an instance, and what it probes.
type Health struct {
	Last   *Check // nil before the first
	Probes string // "http http://127.0.0.1/healthz"
}

// An Output is where the output of an instance goes, and what keeps it from there.
type Output struct {
	NotCaptured  string       // why it is not captured; empty if it is
	Logger       string       // program that reads it; empty without one
	LoggerOf     string       // program whose output it reads; empty if it is no logger
	Outage       *logs.Outage // why it does not reach its log; nil if it does
	DroppedBytes int64
	DroppedLines int64
}

// A Restarts is the restarts of an instance, and their limits.
type Restarts struct {
	Attempts int // consecutive restarts without a stable run
	Count    int // automatic restarts since the operator's last start
	Failures int // failures within the window of the start limit
	LimitHit bool
	Limit    config.StartLimit
	Backoff  config.Backoff
}

// A Schedule is the schedule of an instance. The zero value: none is in force.
type Schedule struct {
	Spec    string
	NextRun time.Time // zero unless the instance waits only for that
	Skipped int       // due times that were skipped during the current run
}

// A Check is the result of a health check.
type Check struct {
	At       time.Time
	Took     time.Duration
	Outcome  probe.Outcome
	Reason   string // why it did not pass
	Failures int    // consecutive failures
}
