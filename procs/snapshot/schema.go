// Package snapshot is what a superd records for its successor: the records of the journal, their
// keys, and what a successor understands of them.
//
// [Read] turns a journal into a [Snapshot] and refuses records that this superd can't use.
// [Snapshot.Merge] completes the record of an instance with its start record. The package takes
// values and returns values: it opens nothing, reads no clock and logs nothing.
//
// # When the schema changes
//
// Every later superd reads the journals of this one. testdata/v1 has journals of format 1, and
// TestGoldenJournals compares what is understood of them. The keys in the journal are independent
// of Go: a field may be renamed, its key may not.
//
//   - Add a field with omitempty or omitzero, so that its zero value means what its absence meant.
//     An older superd ignores it.
//   - A definition has the names of the fields of [config.Program]. A field that is renamed there
//     gets a tag with its old name.
//   - An older superd refuses a record with a state or an outcome that it does not know, and scans
//     for processes. It shows an actor or a reason that it does not know as an unknown one.
//   - Where an older superd would misread a value, increment the format in procs/journal/record.go.
//     Then `go test ./tests -run JournalsAreUnderstood -update` writes testdata/v2. Keep v1, which
//     [Read] still has to understand.
package snapshot

import (
	"fmt"
	"slices"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/pidfd"
	"superd/procs/counters"
	"superd/procs/fsm"
	"superd/procs/schedule"
)

// Times are nanoseconds of CLOCK_MONOTONIC, the same for all processes until the next boot. States,
// outcomes, actors and reasons have the names of package fsm.

// A Superd is the record of superd as a whole.
type Superd struct {
	Config uint64 `json:"config"` // number of the active configuration
	// Number of the oldest configuration that the active one has not replaced completely; 0: none
	Before   uint64    `json:"before,omitempty"`
	Begun    bool      `json:"begun,omitempty"`    // something was started
	Shutdown *Shutdown `json:"shutdown,omitempty"` // nil without a shutdown
	// An orderly end: only instances stopped by the operator have records
	Ended bool `json:"ended,omitempty"`
}

// A Shutdown is the snapshot of a shutdown under way.
type Shutdown struct {
	Why         fsm.SavedReason `json:"why"`
	RequestedAt time.Duration   `json:"asked_at,omitempty"` // 0: not requested by a person
	Hurry       bool            `json:"hurry,omitempty"`
	Status      int             `json:"status,omitempty"` // exit status of superd
}

// An Instance is the record of an instance. [Instance.Machine] has the fields of its machine.
type Instance struct {
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
	Flapping        *Flapping       `json:"flapping,omitempty"`
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
	LastCompletedStart uint64          `json:"last_completed_start,omitempty"`
	Exit               *Exit           `json:"exit,omitempty"` // of the last run
	LastReload         *ReloadEnd      `json:"last_reload,omitempty"`
	Counts             counters.Counts `json:"counts,omitzero"`
	Output             bool            `json:"output,omitempty"` // it has a FIFO
	// Name of the read end in the descriptor store
	FDName       string `json:"fd_name,omitempty"`
	Stderr       bool   `json:"stderr,omitempty"` // it has a FIFO for standard error
	StderrFDName string `json:"stderr_fd_name,omitempty"`
	// A logger: it has a FIFO for its standard input
	Input       bool   `json:"input,omitempty"`
	InputFDName string `json:"input_fd_name,omitempty"`
	Dropped     *Drops `json:"dropped,omitempty"`
	// Run that has ended while its output is not completely in the log
	Drain  string `json:"drain,omitempty"`
	Tree   string `json:"tree,omitempty"`   // path of its process tree
	Probes string `json:"probes,omitempty"` // path of the tree of its exec checks
	Run    *Run   `json:"run,omitempty"`
}

// A Flapping is the last automatic restarts, and since when there are too many.
type Flapping struct {
	Restarts []time.Duration `json:"restarts"`
	Since    time.Duration   `json:"since,omitempty"` // 0: there are not
}

// A Drops is how much output was dropped: the counters of logs.Drops.
type Drops struct {
	Bytes, Lines int64
	// How much of it drop records report
	RecordedBytes int64 `json:"ToldBytes"`
	RecordedLines int64 `json:"ToldLines"`
}

// An Exit is how the last run ended, and when.
type Exit struct {
	Known  bool          `json:"known,omitempty"`
	Code   int           `json:"code,omitempty"`
	Signal int           `json:"signal,omitempty"`
	At     time.Duration `json:"at"`
}

// A ReloadEnd is how the last reload of the program ended, and when.
type ReloadEnd struct {
	OK      bool          `json:"ok,omitempty"`
	Outcome string        `json:"outcome"`
	At      time.Duration `json:"at"`
}

// A Run is the snapshot of a run.
type Run struct {
	ID string `json:"id"` // invocation id
	// Definition of the run, if that is not the instance's
	Definition *config.Program `json:"table,omitempty"`
	// Its definition is superseded, and it must end
	Outdated      bool          `json:"outdated,omitempty"`
	HadProcess    bool          `json:"touched,omitempty"`
	Main          *Process      `json:"main,omitempty"`
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
	Leaving  *time.Duration `json:"leaving,omitempty"`
	Health   *Health        `json:"health,omitempty"`
	Group    int            `json:"group,omitempty"`
	OOMKills int            `json:"oom_kills,omitempty"`
	EnvSum   uint64         `json:"env_sum,omitempty"` // of the env file at the start
	// What of its sandbox could not be enforced
	SandboxWarnings []string      `json:"sandbox_warnings,omitempty"`
	StopDeadline    time.Duration `json:"stop_deadline,omitempty"`
	// Kill signal of the main process; 0 before
	KillSignal int `json:"kill_signal,omitempty"`
	// When leftover processes get SIGKILL
	TeardownDeadline time.Duration `json:"teardown_deadline,omitempty"`
	// It is on record that processes which outlived the stop time-out are not killed
	SparedRecorded bool    `json:"spared_recorded,omitempty"`
	Hook           *Hook   `json:"hook,omitempty"` // current hook
	PreStarted     bool    `json:"pre_started,omitempty"`
	PostStopped    bool    `json:"post_stopped,omitempty"`
	Launch         Launch  `json:"launch,omitempty"` // of a forking program
	Beside         *Beside `json:"beside,omitempty"`
}

// A Beside is the snapshot of what runs beside the main process of a run.
type Beside struct {
	Reload *Reload `json:"reload,omitempty"`
	// stop_command was begun, and the stop signal is not sent
	StopCommand StopCommand `json:"stop_command,omitempty"`
	PostStart   int         `json:"post_start,omitempty"` // number of the current hook, from 1
}

// A Reload is the snapshot of a reload that the operator requested.
type Reload struct {
	Stage     ReloadStage   `json:"stage"`
	SignalAt  time.Duration `json:"signal_at,omitempty"`
	Confirmed bool          `json:"confirmed,omitempty"` // RELOADING=1 came since then
	Due       time.Duration `json:"due,omitempty"`       // of that
	Again     bool          `json:"again,omitempty"`     // another reload was requested meanwhile
}

// A Launch is what is known of the main process of a forking program.
type Launch string

// What is known of the main process; empty while the command runs.
const (
	// The command has ended; the process in the record is that of the command
	LaunchSearched Launch = "searched"
	LaunchFound    Launch = "found"
)

// A ReloadStage is what a reload does.
type ReloadStage string

// The stages of a reload.
const (
	ReloadCheck   ReloadStage = "check"   // check_command; nothing has happened
	ReloadCommand ReloadStage = "command" // reload_command
	ReloadSignal  ReloadStage = "signal"  // reload_signal may have been sent
	ReloadConfirm ReloadStage = "confirm" // reload_signal is sent; the program confirms
)

// A StopCommand is what a stop_command does.
type StopCommand string

// The values of a StopCommand.
const (
	StopCommandRuns  StopCommand = "runs"
	StopCommandEnded StopCommand = "ended" // the program may still end by it
)

// A Health is the snapshot of the health checks of a run.
type Health struct {
	What     string `json:"what"`               // the checks; others begin anew
	Failures int    `json:"failures,omitempty"` // consecutive failures
	Healthy  *bool  `json:"healthy,omitempty"`  // nil: unknown so far
}

// A Hook is the snapshot of the current hook.
type Hook struct {
	At      int      `json:"at"`                // its index, counted from 0
	Process *Process `json:"process,omitempty"` // nil: not started yet
	Stopped bool     `json:"stopped,omitempty"` // it is cancelled
	// Why it is being killed, unless it was cancelled
	Failed string        `json:"failed,omitempty"`
	Due    time.Duration `json:"due"` // when it is killed
	// Its time-out; 0: that of the program
	Timeout time.Duration `json:"timeout,omitempty"`
}

// A Process is a process that was started.
type Process struct {
	Pid    int    `json:"pid"`
	Start  uint64 `json:"start,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	FDName string `json:"fd_name,omitempty"` // name of its pidfd in the descriptor store
}

// NewProcess returns the record of a process. storedName is the name of its pidfd in the descriptor
// store.
func NewProcess(id pidfd.Identity, storedName string) *Process {
	return &Process{Pid: id.Pid, Start: id.Start, Inode: id.Inode, FDName: storedName}
}

// Identity returns the identity of the process.
func (p *Process) Identity() pidfd.Identity {
	return pidfd.Identity{Pid: p.Pid, Start: p.Start, Inode: p.Inode}
}

// A Start is a start record: written just before the fork, and again with the process just after
// it.
type Start struct {
	Run string `json:"run"` // invocation id
	// Number of the run's configuration, which the journal may not have yet
	Config uint64 `json:"config,omitempty"`
	// Index of the hook, counted from 0; nil: the main process
	Hook     *int `json:"hook,omitempty"`
	PostStop bool `json:"post_stop,omitempty"` // the hook is a post_stop hook
	// No process of the start is older; in clock ticks since boot
	After   uint64   `json:"after,omitempty"`
	Process *Process `json:"process,omitempty"`
	Notify  string   `json:"notify,omitempty"` // as in a Run
	Ready   string   `json:"ready,omitempty"`
	// Names of the read ends of its new FIFOs in the descriptor store
	FDNames [2]string     `json:"fd_names,omitzero"`
	At      time.Duration `json:"at,omitempty"` // when the process was forked

	// Prevents a second run for the same time
	Schedule *schedule.State `json:"schedule,omitempty"`

	Number uint64 `json:"-"` // of the start; the key of the record has it
}

// A Scale is the number of replicas that an operator has set. It is valid until the configuration's
// number changes.
type Scale struct {
	Replicas   int `json:"replicas"`
	Configured int `json:"file"` // number in the configuration when the scale was set
}

// A Socket is an address that is open, or about to be opened.
type Socket struct {
	Name      string `json:"socket"`
	Network   string `json:"network"`
	Address   string `json:"address"`
	ReusePort bool   `json:"reuse_port,omitempty"`
	Device    string `json:"device,omitempty"`
	Given     bool   `json:"given,omitempty"` // a socket unit of systemd has it, too
}

// NewSocket returns the record of an address of a socket.
func NewSocket(name string, a listen.Address) *Socket {
	return &Socket{Name: name, Network: string(a.Network), Address: a.Address, ReusePort: a.ReusePort, Device: a.Device}
}

// Listen returns the address.
func (s *Socket) Listen() listen.Address {
	return listen.Address{Network: listen.Network(s.Network), Address: s.Address, ReusePort: s.ReusePort, Device: s.Device}
}

// A Roll is a rolling restart of a program that is under way, or the last one.
type Roll struct {
	Stage  RollStage `json:"stage"`
	Extra  int       `json:"extra,omitempty"`  // number of extra replicas
	Canary bool      `json:"canary,omitempty"` // the operator decides when these are up
	// Replicas to be restarted, by name
	Turns   map[string]Turn `json:"turns,omitempty"`
	Failure string          `json:"failure,omitempty"` // why it has failed, as text
}

// A Turn is the turn of a replica in a [Roll].
type Turn struct {
	Run   string `json:"run,omitempty"` // the run that is to be replaced; empty: it had none
	Taken bool   `json:"taken,omitempty"`
}

// A RollStage is what a roll does.
type RollStage string

// The stages of a roll.
const (
	RollStarts   RollStage = "start"   // the extra replicas are started
	RollAwaits   RollStage = "canary"  // they are up, and the operator decides
	RollRestarts RollStage = "restart" // replicas are restarted
	// It has failed; the extra replicas stay until the others are up
	RollHeld RollStage = "held"
	RollEnds RollStage = "end" // the extra replicas are stopped
	// It has failed and is over, and instances run with their former definition
	RollOver RollStage = "over"
)

// Check returns an error for values that this superd can't use.
func (r *Roll) Check() error {
	switch r.Stage {
	case RollStarts, RollAwaits, RollRestarts, RollHeld, RollEnds, RollOver:
	default:
		return fmt.Errorf("stage %q", r.Stage)
	}
	if r.Extra < 0 || r.Extra > config.MaxReplicas {
		return fmt.Errorf("%d extra replicas", r.Extra)
	}
	return nil
}

// Machine returns the snapshot of the instance's machine.
func (v *Instance) Machine() fsm.Saved {
	return fsm.Saved{
		State: v.State, Desired: v.Desired, DesiredBeforeShutdown: v.DesiredBeforeShutdown,
		RestartPending: v.RestartPending, Outcome: v.Outcome, FailureReason: v.FailureReason,
		NotStarted: v.NotStarted, ResourceShortage: v.ResourceShortage, Failed: v.Failed,
		RestartAttempts: v.RestartAttempts, Failures: v.Failures, StartLimitHit: v.StartLimitHit,
		Restarts: v.Restarts, Delay: v.Delay,
		RunPending: v.RunPending, Outdated: v.Run != nil && v.Run.Outdated,
		StartReason: v.StartReason, ExitReason: v.ExitReason, StateReason: v.StateReason,
	}
}

// SetMachine sets the snapshot of the instance's machine. It comes after Run is set, which has
// whether the run is outdated.
func (v *Instance) SetMachine(m fsm.Saved) {
	v.State, v.Desired, v.DesiredBeforeShutdown = m.State, m.Desired, m.DesiredBeforeShutdown
	v.RestartPending, v.Outcome, v.FailureReason = m.RestartPending, m.Outcome, m.FailureReason
	v.NotStarted, v.ResourceShortage, v.Failed = m.NotStarted, m.ResourceShortage, m.Failed
	v.RestartAttempts, v.Failures, v.StartLimitHit = m.RestartAttempts, m.Failures, m.StartLimitHit
	v.Restarts, v.Delay, v.RunPending = m.Restarts, m.Delay, m.RunPending
	v.StartReason, v.ExitReason, v.StateReason = m.StartReason, m.ExitReason, m.StateReason
	if v.Run != nil {
		v.Run.Outdated = m.Outdated
	}
}

// Process returns the process of the instance's run that may live: its hook, or else its main
// process; nil without one.
func (v *Instance) Process() *Process {
	switch {
	case v.Run == nil:
		return nil
	case v.Run.Hook != nil:
		return v.Run.Hook.Process
	}
	return v.Run.Main
}

// RunDefinition returns the definition with which the run began, if it is recorded; otherwise own,
// that of the instance.
func (v *Instance) RunDefinition(own *config.Program) *config.Program {
	if v.Run != nil && v.Run.Definition != nil {
		return v.Run.Definition
	}
	return own
}

// FIFOs returns which FIFOs exist and the names of their read ends in the descriptor store: of
// standard output, standard error and standard input.
func (v *Instance) FIFOs() (exists [3]bool, fdNames [3]string) {
	return [3]bool{v.Output, v.Stderr, v.Input}, [3]string{v.FDName, v.StderrFDName, v.InputFDName}
}

// FDNames returns the names in the descriptor store that the record has.
func (v *Instance) FDNames() []string {
	names := []string{v.FDName, v.StderrFDName, v.InputFDName}
	if p := v.Process(); p != nil {
		names = append(names, p.FDName)
	}
	if v.Run != nil {
		names = append(names, v.Run.Notify, v.Run.Ready)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// WithoutMistakes returns the definition without its mistakes, as a record has it: a program that
// was started has none.
func WithoutMistakes(p *config.Program) *config.Program {
	definition := *p
	definition.Invalid = nil
	return &definition
}
