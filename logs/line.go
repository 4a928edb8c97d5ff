package logs

import "bytes"

// maxLineBytes is how many bytes of a line are stored to show it.
const maxLineBytes = 1024

// newestLine returns the newest complete line in text, the end of an output, without its newline,
// and where it begins; -1 if there is none. ended, if not negative, is where the output of a run
// ended: a line begun before that is complete there.
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
