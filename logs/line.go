package logs

import "bytes"

// maxLineBytes is how much of a line is kept for showing it.
const maxLineBytes = 1024

// A lastLine knows the newest complete line of what it is fed. Its cost is per chunk, not per line.
type lastLine struct {
	complete []byte // the newest complete line, without its newline, its beginning if it is long
	partial  []byte // the beginning of the line that has no end yet
}

// feed takes the next bytes of the output, however they are cut.
func (l *lastLine) feed(p []byte) {
	end := bytes.LastIndexByte(p, '\n')
	if end < 0 {
		l.extend(p)
		return
	}
	if start := bytes.LastIndexByte(p[:end], '\n') + 1; start > 0 {
		l.partial = l.partial[:0]
		l.extend(p[start:end])
	} else {
		l.extend(p[:end])
	}
	l.finish()
	l.extend(p[end+1:])
}

// finish makes the partial line the newest complete one.
func (l *lastLine) finish() {
	l.complete, l.partial = l.partial, l.complete[:0]
}

// end takes what is left without a newline as a line, if there is anything.
func (l *lastLine) end() {
	if len(l.partial) > 0 {
		l.finish()
	}
}

func (l *lastLine) extend(p []byte) {
	l.partial = append(l.partial, p[:min(len(p), maxLineBytes-len(l.partial))]...)
}
