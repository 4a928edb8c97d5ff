package harness

import (
	"regexp"
	"strconv"
)

var dropRecord = regexp.MustCompile(`^(?:superd: )?([0-9]+) bytes? in ([0-9]+) lines? (?:was|were) dropped`)

// ReadDropRecord parses a drop record of a log. ok reports whether the line is one.
func ReadDropRecord(line string) (bytes, lines int64, ok bool) {
	m := dropRecord.FindStringSubmatch(line)
	if m == nil {
		return 0, 0, false
	}
	bytes, _ = strconv.ParseInt(m[1], 10, 64)
	lines, _ = strconv.ParseInt(m[2], 10, 64)
	return bytes, lines, true
}
