package eventlog

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"superd/internal/escape"
)

// A Kind is the kind of an event.
type Kind string

// Kinds of events. Those up to Skip are about one instance.
const (
	// State change: from, state, reason; restart_in_s if a timer was set
	State   Kind = "state"
	Start   Kind = "start"    // main process started
	NoStart Kind = "no-start" // main process could not be started: reason
	Exit    Kind = "exit"     // main process ended
	Health  Kind = "health"   // became healthy or unhealthy: state, reason
	Output  Kind = "output"   // last lines of a failed run
	Print   Kind = "print"    // first output of a run: log has its place
	// Failure to write output to its log (state: begun), or its end (over): reason
	Outage Kind = "outage"
	// A time of the schedule came, or was missed, and no run was started: reason
	Skip Kind = "skip"
	// An instance restarts again and again (state: begun), or no longer (over): reason
	Flapping Kind = "flapping"
	Command  Kind = "command"  // a command was given: reason, by
	Reload   Kind = "reload"   // the configuration was read again, or refused
	Socket   Kind = "socket"   // a socket of the configuration: socket, address, state, reason
	Roll     Kind = "roll"     // a rolling restart began, waits or is over: state, reason
	Shutdown Kind = "shutdown" // superd begins to stop all programs
	Superd   Kind = "superd"   // superd itself has started or ended
	Gap      Kind = "gap"      // missing events; created by the reader
)

// Values of an event's State that are not states of an instance.
const (
	Healthy   = "healthy" // of health
	Unhealthy = "unhealthy"
	Begun     = "begun" // of outage, roll and flapping
	Over      = "over"
	Started   = "started" // of superd
	Ended     = "ended"
	Opened    = "opened"  // of socket
	Leaving   = "leaving" // open only for the runs that use it
	Closed    = "closed"
	Failed    = "failed"
	Refused   = "refused" // connections are closed
	Paused    = "paused"  // no connections are accepted for now
)

// An Event is an event. Fields without a value are zero, and absent in JSON.
//
// The kernel's maximum resident memory of a process includes that of superd, from which it was
// forked. If the value is not greater than superd's, it is only an upper bound.
type Event struct {
	Cursor     uint64      `json:"cursor"` // number of the event, counted from 1 without holes
	At         time.Time   `json:"at"`     // wall clock, in microseconds
	Kind       Kind        `json:"kind"`
	Instance   string      `json:"instance,omitempty"`
	Program    string      `json:"program,omitempty"`
	Run        string      `json:"run,omitempty"` // invocation id
	From       string      `json:"from,omitempty"`
	State      string      `json:"state,omitempty"`
	Pid        int         `json:"pid,omitempty"`
	Socket     string      `json:"socket,omitempty"`  // its name
	Address    string      `json:"address,omitempty"` // of that socket
	By         string      `json:"by,omitempty"`
	ByKind     string      `json:"by_kind,omitempty"` // kind of actor, for scripts
	Reason     string      `json:"reason,omitempty"`
	ReasonKind string      `json:"reason_kind,omitempty"` // kind of reason, for scripts
	Exit       *ExitStatus `json:"exit,omitempty"`
	Started    time.Time   `json:"started_at,omitzero"`  // start of the run that ended
	Duration   *float64    `json:"duration_s,omitempty"` // duration of the run that ended
	// Processor time of the run that ended, user and system
	CPU *float64 `json:"cpu_s,omitempty"`
	// Of the largest process of the run that ended
	MaxRSS    int64    `json:"max_rss_bytes,omitempty"`
	RSSBound  bool     `json:"max_rss_is_bound,omitempty"` // max_rss_bytes is an upper bound
	RestartIn *float64 `json:"restart_in_s,omitempty"`
	Output    []string `json:"output,omitempty"` // lines without line ends
	// Where the output of the run begins in the log, a segment.Cursor
	Place string `json:"log,omitempty"`
	Lost  uint64 `json:"lost,omitempty"` // number of missing events; 0 in a gap: unknown
}

// An ExitStatus says how a main process ended.
type ExitStatus struct {
	Code *int `json:"code"` // null if a signal ended it, or if unknown
	// Such as "SIGKILL"; null if it exited by itself, or if unknown
	Signal *string `json:"signal"`
	Known  bool    `json:"known"`
}

// Limits of an event, so that no line exceeds a reader's buffer.
const (
	maxText   = 2 << 10 // bytes of a reason
	maxCursor = 1 << 53 // numbers up to it are exact in every JSON reader
)

// prefix begins each line. With it a reader can skip events without decoding them.
const prefix = `{"cursor":`

// Encode appends e as a line, with escapes for characters that affect a terminal. After an error
// nothing is appended.
func Encode(buffer *bytes.Buffer, e *Event) error {
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if !e.Started.IsZero() {
		e.Started = e.Started.UTC().Truncate(time.Microsecond)
	}
	e.Reason = clip(e.Reason)
	begin := buffer.Len()
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return err
	}
	line := escape.JSON(buffer.Bytes()[begin:])
	buffer.Truncate(begin)
	buffer.Write(line)
	return nil
}

// clip truncates text to what an event may hold.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > maxText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// number returns the number of the event on a line; ok is false if the line is not one of superd.
func number(line []byte) (cursor uint64, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(prefix))
	if !ok || !bytes.HasSuffix(rest, []byte("}")) {
		return 0, false
	}
	digits, _, ok := bytes.Cut(rest, []byte(","))
	if !ok {
		return 0, false
	}
	cursor, err := strconv.ParseUint(string(digits), 10, 64)
	return cursor, err == nil && cursor > 0 && cursor < maxCursor
}

// decode returns the event on a line; ok is false if there is none.
func decode(line []byte) (e Event, ok bool) {
	cursor, ok := number(line)
	if !ok || json.Unmarshal(line, &e) != nil {
		return Event{}, false
	}
	return e, e.Cursor == cursor && e.Kind != "" && !e.At.IsZero()
}

// A Reason is a reason of an event: a text and the name of its kind.
type Reason interface {
	String() string
	KindName() string
}

// WithReason returns e with the reason r.
func WithReason(e Event, r Reason) Event {
	e.Reason, e.ReasonKind = r.String(), r.KindName()
	return e
}

// TailLines is how many of the last lines of a failed run or command are recorded.
const TailLines = 5

// LastLines returns the last n lines of text as valid UTF-8, without empty lines at the end. cut
// reports that text may begin within a line: that line counts only if it is the only one.
func LastLines(text string, cut bool, n int) []string {
	text = strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	switch {
	case cut && len(lines) == 1:
		lines[0] = "…" + lines[0]
	case cut:
		lines = lines[1:]
	}
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return lines
}
