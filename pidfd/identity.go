package pidfd

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// An Identity tells a process from every other one of the same boot, also from a later one of the
// same pid. It is plain data, to be kept in a journal and compared with ==.
type Identity struct {
	Pid   int
	Start uint64 // when it started, in clock ticks (1/100 s) since boot
	Inode uint64 // of its pidfd, never used twice in a boot; 0 where the kernel has no pidfs (before 6.9)
}

// ticksPerSecond is the unit of times in /proc on every architecture that Go runs on. Source: time(7).
const ticksPerSecond = 100

// startField is the number of the start time among the fields of /proc/pid/stat, counted from 1.
// Source: proc_pid_stat(5).
const startField = 22

// parseStart returns the start time in stat, the contents of a /proc/pid/stat.
//
// The second field is the command name in parentheses, which the process chooses: it may hold
// spaces, parentheses and line ends, but nothing after it does, so fields are counted from the last ')'.
func parseStart(stat []byte) (uint64, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("no command name")
	}
	rest, field := stat[end+1:], []byte(nil)
	for number := 3; number <= startField; number++ {
		rest = bytes.TrimLeft(rest, " \n")
		if len(rest) == 0 {
			return 0, fmt.Errorf("%d fields, want at least %d", number-1, startField)
		}
		at := bytes.IndexByte(rest, ' ')
		if at < 0 {
			at = len(bytes.TrimRight(rest, "\n"))
		}
		field, rest = rest[:at], rest[at:]
	}
	return strconv.ParseUint(string(field), 10, 64)
}
