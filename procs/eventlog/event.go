package eventlog

import (
	"bytes"
	"encoding/json"
	"strconv"
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
	Skip     Kind = "skip"
	Command  Kind = "command"  // a command was given: reason, by
	Reload   Kind = "reload"   // the configuration was read again, or refused
	Shutdown Kind = "shutdown" // superd begins to stop all programs
	Superd   Kind = "superd"   // superd itself has started or ended
	Gap      Kind = "gap"      // missing events: lost; created by the reader
)

// Values of an event's State that are not states of an instance.
const (
	Healthy   = "healthy" // of health
	Unhealthy = "unhealthy"
	Begun     = "begun" // of outage
	Over      = "over"
	Started   = "started" // of superd
	Ended     = "ended"
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
	// Where the output of the run begins in the log, a logs.Cursor
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

// Encode appends e as a line, as encoding/json would without HTML escaping, and with escapes for
// characters that affect a terminal. A start has several events, and encoding/json takes several
// times as long. A test compares the two.
func Encode(buffer *bytes.Buffer, e *Event) error {
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if !e.Started.IsZero() {
		e.Started = e.Started.UTC().Truncate(time.Microsecond)
	}
	e.Reason = clip(e.Reason)
	buffer.Grow(256) // most lines are shorter
	w := writer{buffer.AvailableBuffer(), nil}
	w.line = strconv.AppendUint(append(w.line, prefix...), e.Cursor, 10)
	w.time("at", e.At)
	w.key("kind")
	w.text(string(e.Kind))
	for _, f := range [...]struct{ name, text string }{
		{"instance", e.Instance}, {"program", e.Program}, {"run", e.Run}, {"from", e.From}, {"state", e.State},
	} {
		w.textIf(f.name, f.text)
	}
	if e.Pid != 0 {
		w.key("pid")
		w.line = strconv.AppendInt(w.line, int64(e.Pid), 10)
	}
	w.textIf("by", e.By)
	w.textIf("by_kind", e.ByKind)
	w.textIf("reason", e.Reason)
	w.textIf("reason_kind", e.ReasonKind)
	if e.Exit != nil {
		w.exit(e.Exit)
	}
	if !e.Started.IsZero() {
		w.time("started_at", e.Started)
	}
	w.secondsIf("duration_s", e.Duration)
	w.secondsIf("cpu_s", e.CPU)
	if e.MaxRSS != 0 {
		w.key("max_rss_bytes")
		w.line = strconv.AppendInt(w.line, e.MaxRSS, 10)
	}
	if e.RSSBound {
		w.key("max_rss_is_bound")
		w.line = append(w.line, "true"...)
	}
	w.secondsIf("restart_in_s", e.RestartIn)
	if len(e.Output) > 0 {
		w.other("output", e.Output)
	}
	w.textIf("log", e.Place)
	if e.Lost != 0 {
		w.key("lost")
		w.line = strconv.AppendUint(w.line, e.Lost, 10)
	}
	if w.err == nil {
		buffer.Write(append(w.line, "}\n"...))
	}
	return w.err
}

// A writer builds a line.
type writer struct {
	line []byte
	err  error
}

// key begins a field other than the first.
func (w *writer) key(name string) {
	w.line = append(append(append(w.line, `,"`...), name...), `":`...)
}

func (w *writer) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			w.value(s)
			return
		}
	}
	w.line = append(append(append(w.line, '"'), s...), '"')
}

func (w *writer) textIf(name, s string) {
	if s != "" {
		w.key(name)
		w.text(s)
	}
}

func (w *writer) time(name string, at time.Time) {
	w.key(name)
	w.line = append(at.AppendFormat(append(w.line, '"'), time.RFC3339Nano), '"')
}

func (w *writer) secondsIf(name string, seconds *float64) {
	switch {
	case seconds == nil:
	case *seconds == 0 || *seconds >= 1e-6 && *seconds < 1e21: // others have an exponent
		w.key(name)
		w.line = strconv.AppendFloat(w.line, *seconds, 'f', -1, 64)
	default:
		w.other(name, seconds)
	}
}

func (w *writer) exit(e *ExitStatus) {
	w.key("exit")
	w.line = append(w.line, `{"code":`...)
	if e.Code != nil {
		w.line = strconv.AppendInt(w.line, int64(*e.Code), 10)
	} else {
		w.line = append(w.line, "null"...)
	}
	w.key("signal")
	if e.Signal != nil {
		w.text(*e.Signal)
	} else {
		w.line = append(w.line, "null"...)
	}
	w.key("known")
	w.line = append(strconv.AppendBool(w.line, e.Known), '}')
}

// other appends a rare field.
func (w *writer) other(name string, v any) {
	w.key(name)
	w.value(v)
}

func (w *writer) value(v any) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		w.err = err
		return
	}
	w.line = append(w.line, escape.JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n")))...)
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
