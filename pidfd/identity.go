package pidfd

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// An Identity distinguishes a process from all others of the same boot, also from later ones with
// the same pid. It is plain data, which can be stored in a journal and compared with ==.
type Identity struct {
	Pid   int
	Start uint64 // start time in clock ticks (1/100 s) since boot
	// Inode of its pidfd, unique in a boot; 0 if the kernel has no pidfs (before 6.9)
	Inode uint64
}

// ticksPerSecond is the unit of times in /proc on every architecture that Go supports. Source:
// time(7).
const ticksPerSecond = 100

// startField is the number of the start time among the fields of /proc/pid/stat, counted from 1.
// Source: proc_pid_stat(5).
const startField = 22

// parseStart returns the start time in stat, the contents of a /proc/pid/stat.
func parseStart(stat []byte) (uint64, error) { return statField(stat, startField) }

// statField returns field number wanted, counted from 1, of stat, the contents of a /proc/pid/stat.
// The field must be after the second, and a number of at least 0.
//
// The second field is the command name in parentheses, which the process chooses. It may hold
// spaces, parentheses and line ends, but nothing after it does, so fields are counted from the last
// ')'.
func statField(stat []byte, wanted int) (uint64, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errors.New("no command name")
	}
	rest, field := stat[end+1:], []byte(nil)
	for number := 3; number <= wanted; number++ {
		rest = bytes.TrimLeft(rest, " \n")
		if len(rest) == 0 {
			return 0, fmt.Errorf("%d fields, want at least %d", number-1, wanted)
		}
		at := bytes.IndexByte(rest, ' ')
		if at < 0 {
			at = len(bytes.TrimRight(rest, "\n"))
		}
		field, rest = rest[:at], rest[at:]
	}
	return strconv.ParseUint(string(field), 10, 64)
}
