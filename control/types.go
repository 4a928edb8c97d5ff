// Package control is superd's control socket as a client sees it: the JSON that goes over it and a
// [Client] that speaks HTTP over the Unix socket of one runtime directory.
//
// It knows nothing of how programs are supervised, so that a command that only asks stays small and
// starts fast. The other side is the package control/server; both are described in docs/api.md.
package control

import (
	"encoding/json"
	"strings"
	"time"
)

// SocketName is the name of the control socket inside the runtime directory.
const SocketName = "superd.sock"

// A Status is what superd says of one instance of a program. Absent values are null.
type Status struct {
	Name     string     `json:"name"`
	Program  string     `json:"program"`
	Groups   []string   `json:"groups"` // never null
	State    string     `json:"state"`  // stopped, waiting, starting, running, stopping, backoff, exited or failed
	Ready    bool       `json:"ready"`
	Healthy  *bool      `json:"healthy"`         // null: no health check, or none has ended yet
	Pid      *int       `json:"pid"`             // null: no main process
	Since    *time.Time `json:"since"`           // when it came into this state, wall clock
	Uptime   *float64   `json:"uptime_s"`        // seconds its main process has run; null: there is none
	Restarts int        `json:"restarts"`        // automatic ones since the operator's last start
	Exit     *Exit      `json:"exit"`            // how the last run ended; null: none has
	NextIn   *float64   `json:"next_start_in_s"` // seconds until the next start that is due by itself
	CPU      *float64   `json:"cpu_s"`           // processor seconds of the main process, user and system
	RSS      *int64     `json:"rss_bytes"`       // resident memory of the main process
	LogFile  *string    `json:"log_file"`
	Stderr   string     `json:"stderr_file,omitzero"` // absent: standard error has no file of its own
	LogSink  string     `json:"log_sink,omitzero"`    // journald, syslog, stdout or command, where the output goes instead of a file
	LastLine *string    `json:"last_line"`            // newest complete line, as written; invalid UTF-8 replaced
	Reason   *string    `json:"reason"`               // why it is in this state, in plain words

	StatusText  *string      `json:"status_text"`  // what the program says of itself by sd_notify: STATUS=
	HealthCheck *HealthCheck `json:"health_check"` // the last one of the present run; null: none has ended

	// Output that was dropped rather than have the program wait, since superd started; absent where none was.
	DroppedBytes int64 `json:"dropped_bytes,omitzero"`
	DroppedLines int64 `json:"dropped_lines,omitzero"`

	LogOutage *LogOutage `json:"log_outage,omitzero"` // absent: its output gets into its log, as far as is known
}

// Up tells whether the instance runs and is ready.
func (s *Status) Up() bool { return s.State == "running" }

// A HealthCheck is what came of a health check.
type HealthCheck struct {
	Passed   *bool     `json:"passed"` // null: it says nothing, as superd lacked something or the machine slept meanwhile
	At       time.Time `json:"at"`     // when it began
	Took     float64   `json:"took_s"`
	Reason   *string   `json:"reason"`          // why it did not pass
	Failures int       `json:"failures_in_row"` // by now
}

// A LogOutage is a time in which output does not get into its log.
type LogOutage struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
	Drops  bool      `json:"drops"` // what comes is dropped; otherwise the program waits when its pipe is full
}

// An Exit is how a run ended: by a code, by a signal, or in a way that nobody saw (Known is false).
type Exit struct {
	Code   *int      `json:"code"`   // null when a signal ended it
	Signal *string   `json:"signal"` // "SIGKILL"; null when it exited by itself
	At     time.Time `json:"at"`
	Known  bool      `json:"known"`
}

// A Brief is the part of a [Status] that costs nothing to find out.
type Brief struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Pid   *int   `json:"pid"`
}

// Up tells whether the instance runs and is ready.
func (b *Brief) Up() bool { return b.State == "running" }

// An Outcome is what a command did to one instance.
type Outcome struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	State   string `json:"state"`   // the state it is in now
	Message string `json:"message"` // what happened, in plain words
}

// A Report is what a reload has changed or, if it was a dry run, would change. No list is null.
type Report struct {
	DryRun   bool        `json:"dry_run"`
	Added    []string    `json:"added"` // programs, by name; so are the next two
	Removed  []string    `json:"removed"`
	Changed  []string    `json:"changed"`  // applied live, or with a restart
	Programs []Change    `json:"programs"` // all of the old and the new configuration, by name
	Superd   []KeyChange `json:"superd"`   // what is different in [superd]
	Notes    []string    `json:"notes"`    // what else is to be said of it
}

// A Change is what a reload makes of one program.
type Change struct {
	Program string      `json:"program"`
	Change  string      `json:"change"` // unchanged, applied live, restart needed, added or removed
	Keys    []KeyChange `json:"keys"`   // what is different; never null
}

// A KeyChange is a key of the configuration that means something else. Values are as in TOML, null for none and where they may be secret.
type KeyChange struct {
	Key     string  `json:"key"`
	Old     *string `json:"old"`
	New     *string `json:"new"`
	Restart bool    `json:"restart"` // comes into force with a new run; of [superd], when superd is started anew
	Text    string  `json:"text"`    // the change in words
}

// A Scaled is what became of the number of instances of a program.
type Scaled struct {
	Program   string    `json:"program"`
	From      int       `json:"from"`
	To        int       `json:"to"`
	Instances []Outcome `json:"instances"` // those that come or leave; never null
}

// A Version describes a running superd.
type Version struct {
	Version   string          `json:"version"`
	Commit    *string         `json:"commit"` // null: not built from a repository
	Pid       int             `json:"pid"`
	KeeperPid *int            `json:"keeper_pid"` // null: it runs without a keeper
	Uptime    float64         `json:"uptime_s"`
	Features  map[string]bool `json:"features"` // newer kernel features, and whether the kernel has them
}

// A Shutdown is the answer to a request to shut down, given before the programs are stopped.
type Shutdown struct {
	Pid     int    `json:"pid"` // superd's own
	Message string `json:"message"`
}

// An Upgrade is the answer to a request to go on with another binary, given before superd executes it.
type Upgrade struct {
	Pid     int    `json:"pid"`    // superd's own, which the new binary keeps
	Binary  string `json:"binary"` // path
	From    string `json:"from"`   // version
	To      string `json:"to"`
	WayBack bool   `json:"way_back"` // the keeper starts the old one if the new one is not ready soon
}

// A Mistake is one thing wrong in a configuration file.
type Mistake struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // counted from 1; 0: the file as a whole
	Column   int    `json:"column"` // counted from 1; 0: the line as a whole
	Key      string `json:"key"`    // dotted: program.web.stop_timeout
	Message  string `json:"message"`
	Severity string `json:"severity"` // error or warning
}

// An Error is what superd answers when it does not do what was asked.
type Error struct {
	Status   int       `json:"-"` // of HTTP
	Message  string    `json:"error"`
	Remedy   string    `json:"remedy"`             // what to do about it; may be empty
	Mistakes []Mistake `json:"mistakes,omitempty"` // of a configuration that was refused
}

func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + "; " + e.Remedy
}

// decodeError makes an Error of an answer that is not a success, whoever sent it.
func decodeError(status int, body []byte) *Error {
	e := &Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Message == "" {
		e = &Error{Message: strings.TrimSpace(string(body))}
	}
	e.Status = status
	return e
}
