package server

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"superd/control"
	"superd/procs"
)

// Statuses of thousands of instances are encoded here, as encoding/json would: that takes several times as long, and a collection of garbage. A test
// compares the two.

// appendBriefs appends the brief status of instances as a JSON array.
func appendBriefs(b []byte, all []procs.Brief) []byte {
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"name":`...), all[i].Name)
		b = appendText(append(b, `,"state":`...), all[i].State.String())
		b = append(b, `,"pid":`...)
		if pid := all[i].Pid; pid != 0 {
			b = strconv.AppendInt(b, int64(pid), 10)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendStatus appends the status of an instance.
func appendStatus(b []byte, s *control.Status) []byte {
	b = appendText(append(b, `{"name":`...), s.Name)
	b = appendText(append(b, `,"program":`...), s.Program)
	b = append(b, `,"groups":[`...)
	for i, group := range s.Groups {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, group)
	}
	b = appendText(append(b, `],"state":`...), s.State)
	b = strconv.AppendBool(append(b, `,"ready":`...), s.Ready)
	b = appendOr(append(b, `,"healthy":`...), s.Healthy, strconv.AppendBool)
	b = appendOr(append(b, `,"pid":`...), s.Pid, appendInt)
	b = appendOr(append(b, `,"since":`...), s.Since, appendTime)
	b = appendOr(append(b, `,"uptime_s":`...), s.Uptime, appendFloat)
	b = appendInt(append(b, `,"restarts":`...), s.Restarts)
	b = appendOr(append(b, `,"exit":`...), s.Exit, appendOther)
	b = appendOr(append(b, `,"next_start_in_s":`...), s.NextIn, appendFloat)
	b = appendOr(append(b, `,"cpu_s":`...), s.CPU, appendFloat)
	b = appendOr(append(b, `,"rss_bytes":`...), s.RSS, appendInt)
	b = appendOr(append(b, `,"log_file":`...), s.LogFile, appendText)
	if s.Stderr != "" {
		b = appendText(append(b, `,"stderr_file":`...), s.Stderr)
	}
	if s.LogSink != "" {
		b = appendText(append(b, `,"log_sink":`...), s.LogSink)
	}
	b = appendOr(append(b, `,"last_line":`...), s.LastLine, appendText)
	b = appendOr(append(b, `,"reason":`...), s.Reason, appendText)
	b = appendOr(append(b, `,"status_text":`...), s.StatusText, appendText)
	b = appendOr(append(b, `,"health_check":`...), s.HealthCheck, appendOther)
	if s.DroppedBytes != 0 {
		b = appendInt(append(b, `,"dropped_bytes":`...), s.DroppedBytes)
	}
	if s.DroppedLines != 0 {
		b = appendInt(append(b, `,"dropped_lines":`...), s.DroppedLines)
	}
	if s.LogOutage != nil {
		b = appendOther(append(b, `,"log_outage":`...), s.LogOutage)
	}
	return append(b, '}')
}

// appendOr appends what v points to, null if that is nothing.
func appendOr[T any](b []byte, v *T, appendValue func([]byte, T) []byte) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return appendValue(b, *v)
}

func appendInt[T int | int64](b []byte, n T) []byte { return strconv.AppendInt(b, int64(n), 10) }

// appendFloat appends f as encoding/json does where it has no exponent, which a number of seconds never has.
func appendFloat(b []byte, f float64) []byte {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return appendOther(b, f)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendText appends a string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			return appendOther(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendOther appends what is rare, or has no easy form.
func appendOther[T any](b []byte, v T) []byte {
	text, err := json.Marshal(v)
	if err != nil { // no value of a status is without a form
		return append(b, "null"...)
	}
	return append(b, text...)
}
