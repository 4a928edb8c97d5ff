package eventlog

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Kind says what an event is about.
type Kind string

// The kinds of events. Those up to Skip are about one instance.
const (
	State    Kind = "state"    // its state has changed: from, state, reason; restart_in_s where a timer was set
	Start    Kind = "start"    // its main process was started
	NoStart  Kind = "no-start" // its main process could not be started: reason
	Exit     Kind = "exit"     // its main process has ended
	Health   Kind = "health"   // it has become healthy or unhealthy: state, reason
	Output   Kind = "output"   // the last lines of a run that failed
	Print    Kind = "print"    // a run has printed something for the first time: log tells where
	Outage   Kind = "outage"   // its output does not get into its log (state: begun), or does again (over): reason
	Skip     Kind = "skip"     // a time of its schedule has come, or was missed, and nothing was run: reason
	Command  Kind = "command"  // somebody asked for something: reason, by
	Reload   Kind = "reload"   // the configuration was read again, or refused
	Shutdown Kind = "shutdown" // superd begins to stop everything
	Superd   Kind = "superd"   // superd itself has started or has ended
	Gap      Kind = "gap"      // events are missing here: lost; made by the reader
)

// An Event is one thing that happened. What says nothing about it is zero, and absent in JSON.
//
// What the kernel calls the greatest resident memory of a process begins with that of superd, from which it was forked:
// where it is no greater than that, it is only a bound.
type Event struct {
	Cursor    uint64      `json:"cursor"` // its number, counted from 1 without holes
	At        time.Time   `json:"at"`     // wall clock, in microseconds
	Kind      Kind        `json:"kind"`
	Instance  string      `json:"instance,omitempty"`
	Program   string      `json:"program,omitempty"`
	Run       string      `json:"run,omitempty"` // invocation id
	From      string      `json:"from,omitempty"`
	State     string      `json:"state,omitempty"`
	Pid       int         `json:"pid,omitempty"`
	By        string      `json:"by,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Exit      *ExitStatus `json:"exit,omitempty"`
	Started   time.Time   `json:"started_at,omitzero"`        // of the run that ended
	Duration  *float64    `json:"duration_s,omitempty"`       // of the run that ended
	CPU       *float64    `json:"cpu_s,omitempty"`            // of the run that ended: user and system
	MaxRSS    int64       `json:"max_rss_bytes,omitempty"`    // of the run that ended: its largest process
	RSSBound  bool        `json:"max_rss_is_bound,omitempty"` // it had no more than that
	RestartIn *float64    `json:"restart_in_s,omitempty"`
	Output    []string    `json:"output,omitempty"` // lines, without their ends
	Place     string      `json:"log,omitempty"`    // where in the log the output of the run begins, a logs.Cursor
	Lost      uint64      `json:"lost,omitempty"`   // events that are missing; 0 in a gap: nobody knows how many
}

// An ExitStatus is how a main process ended.
type ExitStatus struct {
	Code   *int    `json:"code"`   // null when a signal ended it, or nobody knows
	Signal *string `json:"signal"` // "SIGKILL"; null when it exited by itself, or nobody knows
	Known  bool    `json:"known"`
}

// Bounds of an event, so that no line outgrows a reader's buffer.
const (
	maxText   = 2 << 10 // bytes of a reason
	maxCursor = 1 << 53 // numbers up to it are exact in every JSON reader
)

// prefix begins each line. It lets a reader pass over events without decoding them.
const prefix = `{"cursor":`

// encode appends e as a line, as encoding/json would without escaping for HTML: a start has several events, and that takes several times as long. A test
// compares the two.
func encode(buffer *bytes.Buffer, e *Event) error {
	e.At = e.At.UTC().Truncate(time.Microsecond)
	if !e.Started.IsZero() {
		e.Started = e.Started.UTC().Truncate(time.Microsecond)
	}
	e.Reason = clip(e.Reason)
	buffer.Grow(256) // most have less than that
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
	w.textIf("reason", e.Reason)
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

// A writer makes a line.
type writer struct {
	line []byte
	err  error
}

// key begins a field which is not the first.
func (w *writer) key(name string) {
	w.line = append(append(append(w.line, `,"`...), name...), `":`...)
}

func (w *writer) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
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

// other appends a field that is rare.
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
	w.line = append(w.line, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}

// clip cuts text to what an event may hold.
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

// number returns the number of the event on a line; not ok: the line is none of superd's.
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

// decode returns the event on a line; not ok: there is none.
func decode(line []byte) (e Event, ok bool) {
	cursor, ok := number(line)
	if !ok || json.Unmarshal(line, &e) != nil {
		return Event{}, false
	}
	return e, e.Cursor == cursor && e.Kind != "" && !e.At.IsZero()
}
