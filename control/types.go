package control

import (
	"encoding/json"
	"strings"
	"time"
)

// SocketName is the name of the control socket in the runtime directory.
const SocketName = "superd.sock"

// A Status is the state of one instance of a program. Missing values are null.
type Status struct {
	Name    string   `json:"name"`
	Program string   `json:"program"`
	Groups  []string `json:"groups"` // never null
	// One of stopped, waiting, starting, running, stopping, backoff, exited and failed
	State   string     `json:"state"`
	Ready   bool       `json:"ready"`
	Healthy *bool      `json:"healthy"` // null: no health check, or none has finished yet
	Pid     *int       `json:"pid"`     // null: no main process
	Since   *time.Time `json:"since"`   // when it entered this state, wall clock
	// Seconds since its main process started; null: none
	Uptime   *float64 `json:"uptime_s"`
	Restarts int      `json:"restarts"`        // automatic restarts since the operator's last start
	Exit     *Exit    `json:"exit"`            // end of the last run; null: none has ended
	NextIn   *float64 `json:"next_start_in_s"` // seconds until the next automatic start
	// Processor seconds of its processes, user and system, and of children they waited for
	CPU     *float64 `json:"cpu_s"`
	RSS     *int64   `json:"rss_bytes"` // resident memory of its processes
	LogFile *string  `json:"log_file"`
	Stderr  string   `json:"stderr_file,omitzero"` // absent: standard error has no separate file
	// One of journald, syslog, stdout and command, if the output does not go to a file
	LogSink string `json:"log_sink,omitzero"`
	// Newest complete line, as written; invalid UTF-8 replaced
	LastLine   *string `json:"last_line"`
	Reason     *string `json:"reason"`      // why it is in this state, as a sentence
	ReasonKind *string `json:"reason_kind"` // kind of the reason: docs/api.md lists the kinds

	// Status text that the program sent by sd_notify: STATUS=
	StatusText *string `json:"status_text"`
	// Last check of the current run; null: none has finished
	HealthCheck *HealthCheck `json:"health_check"`

	// Whether it starts with superd; for a program that connections start: false
	Autostart bool `json:"autostart"`
	// "enabled" or "disabled": an operator has decided so; absent: the configuration does
	Enablement string `json:"enablement,omitzero"`

	// Last reload of the program; absent: none has ended
	LastReload *LastReload `json:"last_reload,omitzero"`

	// When it began to restart again and again; absent: it does not
	FlappingSince *time.Time `json:"flapping_since,omitzero"`

	// Output dropped instead of blocking the program, since superd started; absent if none.
	DroppedBytes int64 `json:"dropped_bytes,omitzero"`
	DroppedLines int64 `json:"dropped_lines,omitzero"`

	// What of its sandbox could not be enforced; absent: nothing
	SandboxWarnings []string `json:"sandbox_warnings,omitzero"`

	// Why not all changes of the files that it watches are noticed; absent: all are
	WatchProblem string `json:"watch_problem,omitzero"`

	// Rolling restart of its program; absent: none is under way
	Rolling *Rolling `json:"rolling,omitzero"`

	// Absent: no failure to write its log is known
	LogOutage *LogOutage `json:"log_outage,omitzero"`
}

// Up reports whether the instance runs and is ready.
func (s *Status) Up() bool { return s.State == StateRunning }

// A Rolling is a rolling restart that is under way.
type Rolling struct {
	// One of start (extra instances are started), canary (they run, and the operator decides),
	// restart, held (it has failed; extra instances stay until the others are ready) and end
	Stage     string  `json:"stage"`
	Restarted int     `json:"restarted"` // instances that were restarted
	Instances int     `json:"instances"` // instances that are to be restarted, or were
	Extra     bool    `json:"extra"`     // this instance is an extra one
	Failure   *string `json:"failure"`   // why it has failed; null: it has not
	Waits     *string `json:"waits"`     // which instance waits to be started, for what; null: none
}

// A HealthCheck is the result of a health check.
type HealthCheck struct {
	// Null: no result, since superd lacked a resource or the machine slept during the check
	Passed   *bool     `json:"passed"`
	At       time.Time `json:"at"` // when it began
	Took     float64   `json:"took_s"`
	Reason   *string   `json:"reason"`          // why it did not pass
	Failures int       `json:"failures_in_row"` // including this one
}

// A LastReload is the end of a reload of a program.
type LastReload struct {
	At      time.Time `json:"at"`
	OK      bool      `json:"ok"`
	Outcome string    `json:"outcome"` // what happened, as a sentence
}

// A LogOutage is a time in which output can't be written to its log.
type LogOutage struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
	// Output is dropped; otherwise the program blocks when its pipe is full
	Drops bool `json:"drops"`
}

// An Exit says how a run ended: by a code, by a signal, or unobserved (Known is false).
type Exit struct {
	Code   *int      `json:"code"`   // null if a signal ended it
	Signal *string   `json:"signal"` // such as "SIGKILL"; null if it exited by itself
	At     time.Time `json:"at"`
	Known  bool      `json:"known"`
}

// A Brief is the part of a [Status] that costs nothing to collect.
type Brief struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Pid   *int   `json:"pid"`
}

// Up reports whether the instance runs and is ready.
func (b *Brief) Up() bool { return b.State == StateRunning }

// A CommandResult is the effect of a command on one instance.
type CommandResult struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	State   string `json:"state"`   // current state
	Message string `json:"message"` // what happened, as a sentence
	// Output has the last lines of a command that failed, such as check_command
	Output []string `json:"output,omitempty"`

	// Unrecorded says why the change is not in superd's journal: a crash of superd would undo it.
	// OK is false then. Absent if the change is recorded.
	Unrecorded string `json:"unrecorded,omitzero"`
}

// A ReloadResult holds what a reload has changed, or would change for a dry run. No list is null.
type ReloadResult struct {
	DryRun  bool     `json:"dry_run"`
	Added   []string `json:"added"` // programs, sorted by name, as in the next two
	Removed []string `json:"removed"`
	Changed []string `json:"changed"` // applied live, or with a restart
	// All programs of the old and the new configuration, sorted by name
	Programs []Change `json:"programs"`
	// Sockets that differ, sorted by name
	Sockets []SocketChange `json:"sockets"`
	Superd  []KeyChange    `json:"superd"` // changed keys of [superd]
	Notes   []string       `json:"notes"`  // further notes for the user

	Unrecorded string `json:"unrecorded,omitzero"` // as in an Outcome
}

// A Change is the effect of a reload on one program.
type Change struct {
	Program string      `json:"program"`
	Change  string      `json:"change"` // unchanged, applied live, restart needed, added or removed
	Keys    []KeyChange `json:"keys"`   // changed keys; never null
}

// A SocketChange is the effect of a reload on one socket.
type SocketChange struct {
	Socket string      `json:"socket"`
	Change string      `json:"change"` // as in a Change, where it concerns the programs that get it
	Keys   []KeyChange `json:"keys"`   // changed keys; never null
	Opened []string    `json:"opened"` // addresses; never null
	Closed []string    `json:"closed"` // likewise
}

// A KeyChange is a key of the configuration with a new meaning. Values are in TOML; null for none
// and for possible secrets.
type KeyChange struct {
	Key string  `json:"key"`
	Old *string `json:"old"`
	New *string `json:"new"`
	// Takes effect with the next run; for [superd], with the next start of superd
	Restart bool   `json:"restart"`
	Text    string `json:"text"` // the change as text
}

// A ScaleResult is the change of the number of instances of a program.
type ScaleResult struct {
	Program   string          `json:"program"`
	From      int             `json:"from"`
	To        int             `json:"to"`
	Instances []CommandResult `json:"instances"` // instances added or removed; never null

	Unrecorded string `json:"unrecorded,omitzero"` // as in an Outcome
}

// A Version describes a running superd.
type Version struct {
	Version   string  `json:"version"`
	Commit    *string `json:"commit"` // null: not built from a repository
	Date      *string `json:"date"`   // of the commit, RFC 3339; null likewise
	Pid       int     `json:"pid"`
	KeeperPid *int    `json:"keeper_pid"` // null: it runs without a keeper
	Uptime    float64 `json:"uptime_s"`
	// Newer kernel features, and whether the kernel has them
	Features map[string]bool `json:"features"`
}

// A Shutdown is the answer to a shutdown request, sent before the programs have ended.
type Shutdown struct {
	Pid        int    `json:"pid"` // pid of superd
	Message    string `json:"message"`
	Unrecorded string `json:"unrecorded,omitzero"` // as in an Outcome
}

// An Upgrade is the answer to an upgrade request, sent before superd executes the other binary.
type Upgrade struct {
	Pid    int    `json:"pid"`    // pid of superd, unchanged by the upgrade
	Binary string `json:"binary"` // path
	From   string `json:"from"`   // version
	To     string `json:"to"`
	// The keeper starts the old binary if the new one is not ready soon
	Reverts bool `json:"way_back"`
}

// An Error is superd's answer when it refuses or fails a request.
type Error struct {
	Status  int    `json:"-"` // HTTP status
	Message string `json:"error"`
	// Parameter of the request whose value was refused
	Parameter string    `json:"parameter,omitempty"`
	Problem   string    `json:"problem,omitempty"`  // the message without the name of the parameter
	Remedy    string    `json:"remedy"`             // what to do; may be empty
	Mistakes  []Mistake `json:"mistakes,omitempty"` // mistakes of a refused configuration
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + "; " + e.Remedy
}

// decodeError returns the Error of an answer other than a success, from superd or another server.
func decodeError(status int, body []byte) *Error {
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Message == "" {
		e = &Error{Message: strings.TrimSpace(string(body))}
	}
	e.Status = status
	return e
}
