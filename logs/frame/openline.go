package frame

import "bytes"

// An OpenLine is what the next byte of an output belongs to: a new line, which may begin with its
// priority, or a line of which a part is a message already. For the latter it is the priority of
// that message plus one.
type OpenLine uint8

const (
	AtBeginning OpenLine = 0
	DroppedLine OpenLine = 10 // the line's start was dropped, and its rest will be
	// UnknownLine is perhaps a new line: it has the default priority, and <N> in it is text.
	UnknownLine OpenLine = 9
)

// priority returns the priority of the next piece of a line, and the text of the piece without it.
func (l OpenLine) priority(piece []byte, defaultPriority int) (priority int, text []byte) {
	switch l {
	case AtBeginning:
		return prioritized(piece, defaultPriority)
	case UnknownLine, DroppedLine:
		return defaultPriority, piece
	}
	return int(l) - 1, piece
}

// After returns what the byte after text belongs to. It must not be called where a line ends
// without a newline.
func (l OpenLine) After(text []byte, defaultPriority int) OpenLine {
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		l, text = AtBeginning, text[end+1:]
	}
	if len(text) == 0 {
		return l
	}
	priority, _ := l.priority(text, defaultPriority)
	return OpenLine(priority + 1)
}

// prioritized returns the priority that a line begins with, as in <3>, and the rest of the line.
// Source: man 3 sd-daemon.
func prioritized(line []byte, defaultPriority int) (priority int, rest []byte) {
	if len(line) >= 3 && line[0] == '<' && line[1] >= '0' && line[1] <= '7' && line[2] == '>' {
		return int(line[1] - '0'), line[3:]
	}
	return defaultPriority, line
}

// Priorities of messages. Source: RFC 5424, section 6.2.1.
const (
	priorityError   = 3
	priorityWarning = 4
	priorityInfo    = 6
)

// defaultPriority returns the priority of a line without one.
func defaultPriority(stream string) int {
	switch stream {
	case Stderr:
		return priorityError
	case DropStream:
		return priorityWarning
	}
	return priorityInfo
}
