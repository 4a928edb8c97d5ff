package logs

import (
	"bytes"
	"strconv"
	"time"
)

// The formats of messages to sinks.
const (
	journalFormat Format = "journald"
	syslogFormat  Format = "syslog"
)

// messages reports whether records are messages, each preceded by its length.
func (f Format) messages() bool { return f == journalFormat || f == syslogFormat }

// Priorities of messages. Source: RFC 5424, section 6.2.1.
const (
	priorityError   = 3
	priorityWarning = 4
	priorityInfo    = 6
)

// defaultPriority returns the priority of a line without one.
func defaultPriority(stream string) int {
	switch stream {
	case stderr:
		return priorityError
	case dropStream:
		return priorityWarning
	}
	return priorityInfo
}

// dropStream is the stream of superd's own messages about an output.
const dropStream = "superd"

// An openLine is what the next byte of an output belongs to: a new line, which may begin with its
// priority, or a line of which a part is a message already. For the latter it is the priority of
// that message plus one.
type openLine uint8

const (
	atBeginning openLine = 0
	droppedLine openLine = 10 // the line's start was dropped, and its rest will be
	// unknownLine is perhaps a new line: it has the default priority, and <N> in it is text.
	unknownLine openLine = 9
)

// priority returns the priority of the next piece of a line, and the text of the piece without it.
func (l openLine) priority(piece []byte, defaultPriority int) (priority int, text []byte) {
	switch l {
	case atBeginning:
		return prioritized(piece, defaultPriority)
	case unknownLine, droppedLine:
		return defaultPriority, piece
	}
	return int(l) - 1, piece
}

// after returns what the byte after text belongs to. It must not be called where a line ends
// without a newline.
func (l openLine) after(text []byte, defaultPriority int) openLine {
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		l, text = atBeginning, text[end+1:]
	}
	if len(text) == 0 {
		return l
	}
	priority, _ := l.priority(text, defaultPriority)
	return openLine(priority + 1)
}

// prioritized returns the priority that a line begins with, as in <3>, and the rest of the line.
// Source: man 3 sd-daemon.
func prioritized(line []byte, defaultPriority int) (priority int, rest []byte) {
	if len(line) >= 3 && line[0] == '<' && line[1] >= '0' && line[1] <= '7' && line[2] == '>' {
		return int(line[1] - '0'), line[3:]
	}
	return defaultPriority, line
}

// beginJournal appends the fields that all entries of a stream share.
//
// Source: systemd.io/JOURNAL_NATIVE_PROTOCOL. No value has a newline in it.
func (r *recorder) beginJournal(dst []byte, o *setting, instance, run, stream string, partial bool) []byte {
	for _, field := range [...]struct{ name, value string }{
		{"SYSLOG_IDENTIFIER", o.identifier()}, {"SYSLOG_FACILITY", strconv.Itoa(o.Facility)}, {"SUPERD_PROGRAM", o.Program}, {"SUPERD_INSTANCE", instance},
		{"SUPERD_INVOCATION_ID", run}, {"SUPERD_STREAM", stream},
	} {
		if field.value != "" {
			dst = append(append(append(append(dst, field.name...), '='), field.value...), '\n')
		}
	}
	if partial {
		dst = append(dst, "SUPERD_PARTIAL=1\n"...)
	}
	return dst
}

// beginSyslog appends the header of a message, from its version on, and its structured data.
func (r *recorder) beginSyslog(dst []byte, o *setting, instance, run, stream string, now time.Time, partial bool) []byte {
	dst = append(dst, "1 "...)
	dst = now.UTC().AppendFormat(dst, recordTime)
	dst = append(dst, ' ')
	dst = appendName(dst, o.host, 255)
	dst = append(dst, ' ')
	dst = appendName(dst, o.identifier(), 48)
	dst = append(dst, " - "...)
	dst = append(dst, stream...)
	dst = append(dst, " [superd@32473"...) // the enterprise number for examples: RFC 5612
	dst = appendParameter(dst, "instance", instance)
	dst = appendParameter(dst, "run", run)
	if partial {
		dst = appendParameter(dst, "partial", "1")
	}
	return append(dst, "] "...)
}

// appendName appends a name of the header: at most most characters, without blanks.
func appendName(dst []byte, name string, limit int) []byte {
	if name == "" {
		return append(dst, '-')
	}
	for i := range min(len(name), limit) {
		b := name[i]
		if b <= ' ' || b > '~' {
			b = '?'
		}
		dst = append(dst, b)
	}
	return dst
}

// appendParameter appends structured data. Source: RFC 5424, section 6.3.3.
func appendParameter(dst []byte, name, value string) []byte {
	dst = append(append(append(dst, ' '), name...), `="`...)
	for i := range len(value) {
		if b := value[i]; b == '"' || b == '\\' || b == ']' {
			dst = append(dst, '\\')
		}
		dst = append(dst, value[i])
	}
	return append(dst, '"')
}

// appendMessage appends a message that begins with head.
func (r *recorder) appendMessage(dst, head, line []byte, partial bool) []byte {
	priority, line := r.line.priority(line, r.defaultPriority)
	if r.line = atBeginning; partial {
		r.line = openLine(priority + 1)
	}
	start := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	if r.format == syslogFormat {
		dst = append(dst, '<')
		dst = strconv.AppendInt(dst, int64(r.facility*8+priority), 10)
		dst = append(append(append(dst, '>'), head...), line...)
	} else {
		dst = append(dst, head...)
		dst = append(strconv.AppendInt(append(dst, "PRIORITY="...), int64(priority), 10), '\n')
		dst = append(append(append(dst, "MESSAGE="...), line...), '\n')
	}
	return frame(dst, start)
}

// messageOverhead is how many bytes a message has at most beyond its head and line.
const messageOverhead = frameHead + len("PRIORITY=0\nMESSAGE=\n")

func recordsIn(format Format, records []byte) (n int) {
	if !format.messages() {
		return bytes.Count(records, newline)
	}
	messages(records, func([]byte, int) bool { n++; return true })
	return n
}
