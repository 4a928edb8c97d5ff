package procs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/schedule"
)

// The journal has these keys:
//
//	superd          a [savedSuperd]
//	config/N        a configuration, from [config.Config.Archive]
//	instance/NAME   a [savedInstance]
//	schedule/NAME   a [schedule.State]: after an orderly end
//	scale/NAME      a [scale]: how many replicas of a program the operator requested
//	start/NAME/N    a [savedStart]: a start whose result is not yet in the instance's record
//
// Fields may be added: a reader ignores unknown ones. Times are nanoseconds of CLOCK_MONOTONIC, the
// same for all processes until the next boot. States, outcomes, actors and reasons have their names
// of procs/fsm/names.go.
const superdKey = "superd"

func configKey(number uint64) string        { return "config/" + strconv.FormatUint(number, 10) }
func instanceKey(name string) string        { return "instance/" + name }
func scheduleKey(name string) string        { return "schedule/" + name }
func startKey(name string, n uint64) string { return fmt.Sprintf("start/%s/%d", name, n) }

// A savedSuperd is the state of superd as a whole.
type savedSuperd struct {
	Config uint64 `json:"config"` // number of the active configuration
	// Number of the oldest configuration that the active one has not replaced completely; 0: none
	Before   uint64         `json:"before,omitempty"`
	Begun    bool           `json:"begun,omitempty"`    // something was started
	Shutdown *savedShutdown `json:"shutdown,omitempty"` // nil without a shutdown
	// An orderly end: only instances stopped by the operator have records
	Ended bool `json:"ended,omitempty"`
}

type savedShutdown struct {
	Why         fsm.SavedReason `json:"why"`
	RequestedAt time.Duration   `json:"asked_at,omitempty"` // 0: not requested by a person
	Hurry       bool            `json:"hurry,omitempty"`
	Status      int             `json:"status,omitempty"` // exit status of superd
}

// A savedInstance is the snapshot of an instance.
type savedInstance struct {
	// Number of the configuration that has its definition
	Config uint64 `json:"config"`
	// Its definition, if no configuration has it any more
	Definition *config.Program `json:"table,omitempty"`
	Removed    bool            `json:"removed,omitempty"` // it is removed when it is at rest
	// Target of its replacement, as the operator set it
	ReplacementTarget *fsm.SavedTarget `json:"replacement_target,omitempty"`

	State string `json:"state"`
	// Its start is prevented by processes that can't be identified
	Quarantined bool            `json:"quarantined,omitempty"`
	Desired     fsm.SavedTarget `json:"desired"`
	// Target before the shutdown
	DesiredBeforeShutdown *fsm.SavedTarget `json:"desired_before_shutdown,omitempty"`
	RestartPending        bool             `json:"restart_pending,omitempty"`
	Outcome               string           `json:"outcome"`
	FailureReason         fsm.SavedReason  `json:"failure_reason,omitzero"`
	NotStarted            bool             `json:"not_started,omitempty"`
	ResourceShortage      bool             `json:"resource_shortage,omitempty"`
	Failed                bool             `json:"failed,omitempty"`

	RestartAttempts int             `json:"restart_attempts,omitempty"`
	Failures        []time.Duration `json:"failures,omitempty"`
	StartLimitHit   bool            `json:"start_limit_hit,omitempty"`
	Restarts        int             `json:"restarts,omitempty"`
	Delay           time.Duration   `json:"delay,omitempty"`
	Due             *time.Duration  `json:"due,omitempty"` // time of the next automatic start

	RunPending bool            `json:"run_pending,omitempty"`
	Schedule   *schedule.State `json:"schedule,omitempty"`
	// Latest time of the schedule that was due
	DueFor time.Time `json:"due_for,omitzero"`
	// Due times that were skipped during the current run
	Skipped int `json:"skipped,omitempty"`

	StartReason fsm.SavedReason `json:"start_reason,omitzero"`
	ExitReason  fsm.SavedReason `json:"exit_reason,omitzero"`
	StateReason fsm.SavedReason `json:"state_reason,omitzero"`

	Since time.Duration `json:"since"`
	// Number of the newest start whose result is in this record
	LastCompletedStart uint64     `json:"last_completed_start,omitempty"`
	Exit               *savedExit `json:"exit,omitempty"`   // of the last run
	Output             bool       `json:"output,omitempty"` // it has a FIFO
	// Name of the read end in the descriptor store
	FDName       string `json:"fd_name,omitempty"`
	Stderr       bool   `json:"stderr,omitempty"` // it has a FIFO for standard error
	StderrFDName string `json:"stderr_fd_name,omitempty"`
	// A logger: it has a FIFO for its standard input
	Input       bool        `json:"input,omitempty"`
	InputFDName string      `json:"input_fd_name,omitempty"`
	Dropped     *logs.Drops `json:"dropped,omitempty"`
	// Run that has ended while its output is not completely in the log
	Drain  string    `json:"drain,omitempty"`
	Tree   string    `json:"tree,omitempty"`   // path of its process tree
	Probes string    `json:"probes,omitempty"` // path of the tree of its exec checks
	Run    *savedRun `json:"run,omitempty"`
}

// machine returns the snapshot of the instance's machine.
func (v *savedInstance) machine() fsm.Saved {
	return fsm.Saved{
		State: v.State, Desired: v.Desired, DesiredBeforeShutdown: v.DesiredBeforeShutdown,
		RestartPending: v.RestartPending, Outcome: v.Outcome, FailureReason: v.FailureReason,
		NotStarted: v.NotStarted, ResourceShortage: v.ResourceShortage, Failed: v.Failed,
		RestartAttempts: v.RestartAttempts, Failures: v.Failures, StartLimitHit: v.StartLimitHit,
		Restarts: v.Restarts, Delay: v.Delay, RunPending: v.RunPending,
		Outdated:    v.Run != nil && (v.Run.Outdated || v.Run.other),
		StartReason: v.StartReason, ExitReason: v.ExitReason, StateReason: v.StateReason,
	}
}

// setMachine sets the snapshot of the instance's machine. The record of the run has whether that is
// outdated.
func (v *savedInstance) setMachine(m fsm.Saved) {
	v.State, v.Desired, v.DesiredBeforeShutdown = m.State, m.Desired, m.DesiredBeforeShutdown
	v.RestartPending, v.Outcome, v.FailureReason = m.RestartPending, m.Outcome, m.FailureReason
	v.NotStarted, v.ResourceShortage, v.Failed = m.NotStarted, m.ResourceShortage, m.Failed
	v.RestartAttempts, v.Failures, v.StartLimitHit = m.RestartAttempts, m.Failures, m.StartLimitHit
	v.Restarts, v.Delay, v.RunPending = m.Restarts, m.Delay, m.RunPending
	v.StartReason, v.ExitReason, v.StateReason = m.StartReason, m.ExitReason, m.StateReason
}

// fifos returns which FIFOs exist, by stream and for the input, and their names in the descriptor
// store.
func (v *savedInstance) fifos() (exists [3]bool, fdNames [3]string) {
	return [3]bool{v.Output, v.Stderr, v.Input}, [3]string{v.FDName, v.StderrFDName, v.InputFDName}
}

// A savedExit is how the last run ended, and when.
type savedExit struct {
	Known  bool          `json:"known,omitempty"`
	Code   int           `json:"code,omitempty"`
	Signal int           `json:"signal,omitempty"`
	At     time.Duration `json:"at"`
}

// A savedRun is the snapshot of a run.
type savedRun struct {
	ID string `json:"id"` // invocation id
	// Definition of the run, if that is not the instance's
	Definition *config.Program `json:"table,omitempty"`
	// Its definition is superseded, and it must end
	Outdated      bool          `json:"outdated,omitempty"`
	HadProcess    bool          `json:"touched,omitempty"`
	Main          *savedProcess `json:"main,omitempty"`
	StartedAt     time.Duration `json:"started_at,omitempty"`
	ReadyAt       time.Duration `json:"ready_at,omitempty"`
	StartDeadline time.Duration `json:"start_deadline,omitempty"`
	// Latest StopDeadline that the program can request
	StopLimit time.Duration `json:"stop_limit,omitempty"`
	// Name of its notify socket in the descriptor store
	Notify string `json:"notify,omitempty"`
	// Name of its readiness pipe in the descriptor store
	Ready string `json:"ready,omitempty"`
	// Where its output begins in its log, if it becomes ready by a line
	PrintsFrom string         `json:"prints_from,omitempty"`
	StderrFrom string         `json:"stderr_from,omitempty"` // likewise for standard error
	StatusText string         `json:"status_text,omitempty"`
	Watchdog   time.Duration  `json:"watchdog,omitempty"`  // the period that it requested
	Reloading  *time.Duration `json:"reloading,omitempty"` // latest end of the reload
	// Deadline of a stop that the program announced
	Leaving      *time.Duration `json:"leaving,omitempty"`
	Health       *savedHealth   `json:"health,omitempty"`
	Group        int            `json:"group,omitempty"`
	OOMKills     int            `json:"oom_kills,omitempty"`
	EnvSum       uint64         `json:"env_sum,omitempty"` // of the env file at the start
	StopDeadline time.Duration  `json:"stop_deadline,omitempty"`
	// When leftover processes get SIGKILL
	TeardownDeadline time.Duration `json:"teardown_deadline,omitempty"`
	Hook             *savedHook    `json:"hook,omitempty"` // current hook
	PreStarted       bool          `json:"pre_started,omitempty"`
	PostStopped      bool          `json:"post_stopped,omitempty"`

	// Start record of the main process, if this record does not have the process
	start *savedStart
	other bool // its definition is not in the journal
	ended bool // the main process has ended, though this record does not say so
}

// A savedHook is the snapshot of the current hook.
type savedHook struct {
	At      int           `json:"at"`                // its index, counted from 0
	Process *savedProcess `json:"process,omitempty"` // nil: not started yet
	Stopped bool          `json:"stopped,omitempty"` // it is cancelled
	// Why it is being killed, unless it was cancelled
	Failed string        `json:"failed,omitempty"`
	Due    time.Duration `json:"due"` // when it is killed
	// Its time-out; 0: that of the program
	Timeout time.Duration `json:"timeout,omitempty"`

	start *savedStart // its start record, if this record does not have the process
}

// A savedProcess is a process that was started.
type savedProcess struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	FDName string `json:"fd_name,omitempty"` // name of its pidfd in the descriptor store
}

func (p *savedProcess) identity() pidfd.Identity {
	return pidfd.Identity{Pid: p.Pid, Start: p.Start, Inode: p.Inode}
}

// A savedStart is a start record: written just before the fork, and again with the process just
// after it.
type savedStart struct {
	Run string `json:"run"` // invocation id
	// Number of the run's configuration, which the journal may not have yet
	Config uint64 `json:"config,omitempty"`
	// Index of the hook, counted from 0; nil: the main process
	Hook     *int `json:"hook,omitempty"`
	PostStop bool `json:"post_stop,omitempty"` // the hook is a post_stop hook
	// No process of the start is older; in clock ticks since boot
	After   uint64        `json:"after,omitempty"`
	Process *savedProcess `json:"process,omitempty"`
	Notify  string        `json:"notify,omitempty"` // as in a savedRun
	Ready   string        `json:"ready,omitempty"`
	// Names of the read ends of its new FIFOs in the descriptor store
	FDNames [2]string     `json:"fd_names,omitzero"`
	At      time.Duration `json:"at,omitempty"` // when the process was forked

	// Prevents a second run for the same time
	Schedule *schedule.State `json:"schedule,omitempty"`

	number uint64
}

// numberOfConfig returns the number of a configuration's key.
func numberOfConfig(key string) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, "config/")
	number, err := strconv.ParseUint(rest, 10, 64)
	return number, ok && err == nil
}

// instanceOfStart returns the instance and the number of a start's key.
func instanceOfStart(key string) (name string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, "start/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(rest[i+1:], 10, 64)
	return rest[:i], number, err == nil
}
