package logs

import "bytes"

// maxLineBytes is how much of a line is kept for showing it.
const maxLineBytes = 1024

// newestLine returns the newest complete line in text, the end of an output, without its newline, and where it begins; -1
// when there is none. ended, where it is not negative, is the place at which the output of a run ended: a line that was
// begun before it is complete there.
func newestLine(text []byte, ended int) (line []byte, start int) {
	first := min(max(ended, 0), len(text))
	end := bytes.LastIndexByte(text[first:], '\n')
	switch {
	case end >= 0:
		end += first
	case ended > 0:
		first, end = 0, len(bytes.TrimSuffix(text[:first], newline))
	default:
		return nil, -1
	}
	start = first + bytes.LastIndexByte(text[first:end], '\n') + 1
	return text[start:end], start
}

var newline = []byte{'\n'}
