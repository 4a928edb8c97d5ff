package harness

import (
	"regexp"
	"strconv"
)

var gap = regexp.MustCompile(`^(?:superd: )?([0-9]+) bytes? in ([0-9]+) lines? (?:was|were) dropped`)

// ReadGap parses a drop record of a log. ok reports whether the line is one.
func ReadGap(line string) (bytes, lines int64, ok bool) {
	m := gap.FindStringSubmatch(line)
	if m == nil {
		return 0, 0, false
	}
	bytes, _ = strconv.ParseInt(m[1], 10, 64)
	lines, _ = strconv.ParseInt(m[2], 10, 64)
	return bytes, lines, true
}
