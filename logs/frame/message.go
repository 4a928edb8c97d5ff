package frame

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"
)

// beginJournal appends the fields that all entries of a stream share.
//
// Source: systemd.io/JOURNAL_NATIVE_PROTOCOL. No value has a newline in it.
func beginJournal(dst []byte, h *Header, stream string, partial bool) []byte {
	for _, field := range [...]struct{ name, value string }{
		{"SYSLOG_IDENTIFIER", h.Identifier}, {"SYSLOG_FACILITY", strconv.Itoa(h.Facility)},
		{"SUPERD_PROGRAM", h.Program}, {"SUPERD_INSTANCE", h.Instance},
		{"SUPERD_INVOCATION_ID", h.Run}, {"SUPERD_STREAM", stream},
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
func beginSyslog(dst []byte, h *Header, stream string, now time.Time, partial bool) []byte {
	dst = append(dst, "1 "...)
	dst = now.UTC().AppendFormat(dst, TimeLayout)
	dst = append(dst, ' ')
	dst = appendName(dst, h.Host, 255)
	dst = append(dst, ' ')
	dst = appendName(dst, h.Identifier, 48)
	dst = append(dst, " - "...)
	dst = append(dst, stream...)
	dst = append(dst, " [superd@32473"...) // the enterprise number for examples: RFC 5612
	dst = appendParameter(dst, "instance", h.Instance)
	dst = appendParameter(dst, "run", h.Run)
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
func (r *Recorder) appendMessage(dst, head, line []byte, partial bool) []byte {
	priority, line := r.Line.priority(line, r.DefaultPriority)
	if r.Line = AtBeginning; partial {
		r.Line = OpenLine(priority + 1)
	}
	start := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	if r.format == Syslog {
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

// Count returns how many records there are in records.
func Count(format Format, records []byte) (n int) {
	if !format.Messages() {
		return bytes.Count(records, newline)
	}
	Messages(records, func([]byte, int) bool { n++; return true })
	return n
}

// frame stores the length of a message before it. The record begins in dst at start, with room for
// the length.
func frame(dst []byte, start int) []byte {
	binary.NativeEndian.PutUint32(dst[start:], uint32(len(dst)-start-frameHead))
	return dst
}

const frameHead = 4 // bytes of the length before a message

// Messages calls yield with each message in records, and with the end of its record.
func Messages(records []byte, yield func(message []byte, end int) bool) {
	for at := 0; at+frameHead <= len(records); {
		n := int(binary.NativeEndian.Uint32(records[at:]))
		end := at + frameHead + n
		if !yield(records[at+frameHead:end], end) {
			return
		}
		at = end
	}
}
