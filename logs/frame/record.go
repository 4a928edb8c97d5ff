package frame

import "time"

// Reset sets time, stream and run of the following records.
func (r *Recorder) Reset(h Header, stream string, now time.Time) {
	r.format, r.DefaultPriority, r.facility = h.Format, defaultPriority(stream), h.Facility
	r.Line = AtBeginning
	r.head = r.begin(r.head[:0], &h, stream, now, false)
	r.partialHead = r.begin(r.partialHead[:0], &h, stream, now, true)
}

func (r *Recorder) begin(dst []byte, h *Header, stream string, now time.Time, partial bool) []byte {
	switch r.format {
	case Journal:
		return beginJournal(dst, h, stream, partial)
	case Syslog:
		return beginSyslog(dst, h, stream, now, partial)
	case JSON:
	default:
		dst = now.UTC().AppendFormat(dst, TimeLayout)
		if h.Shared {
			dst = append(append(dst, ' '), h.Instance...)
		}
		dst = append(append(dst, ' '), stream...)
		if partial {
			dst = append(dst, '+')
		}
		return append(dst, ' ')
	}
	dst = append(dst, `{"time":"`...)
	dst = now.UTC().AppendFormat(dst, TimeLayout)
	for _, field := range [...]struct{ before, value string }{
		{`","program":"`, h.Program}, {`","instance":"`, h.Instance},
		{`","run":"`, h.Run}, {`","stream":"`, stream},
	} {
		dst = append(dst, field.before...)
		dst = AppendJSON(dst, []byte(field.value))
	}
	if partial {
		return append(dst, `","partial":true,"line":"`...)
	}
	return append(dst, `","partial":false,"line":"`...)
}

// Append appends records of the lines in text to dst, as many as its capacity allows, and returns
// how many bytes of text it used.
func (r *Recorder) Append(dst, text []byte, end Ending) (records []byte, used int) {
	for used < len(text) {
		s, ok := Next(text[used:], end)
		if !ok {
			break
		}
		line := text[used : used+s.line]
		prefix, size := r.head, s.line
		if s.partial {
			prefix = r.partialHead
		}
		if r.format == JSON {
			size *= maxEscaped
		}
		if len(dst) > 0 && cap(dst)-len(dst) < len(prefix)+size+messageOverhead {
			break
		}
		switch r.format {
		case Journal, Syslog:
			dst = r.appendMessage(dst, prefix, line, s.partial)
		case JSON:
			dst = AppendJSON(append(dst, prefix...), line)
			dst = append(dst, "\"}\n"...)
		default:
			dst = append(append(dst, prefix...), line...)
			dst = append(dst, '\n')
		}
		used += s.taken
	}
	return dst, used
}
