package pty

// A filter drops the carriage returns that a terminal writes before line feeds.
type filter struct {
	held bool // the last byte was a carriage return, which is not returned yet
	buf  []byte
}

// filter returns text without the carriage returns before line feeds. A carriage return at its end
// is held back until the next call. The result is valid until then.
func (f *filter) filter(text []byte) []byte {
	f.buf = f.buf[:0]
	for _, b := range text {
		if f.held && b != '\n' {
			f.buf = append(f.buf, '\r')
		}
		if f.held = b == '\r'; !f.held {
			f.buf = append(f.buf, b)
		}
	}
	return f.buf
}
