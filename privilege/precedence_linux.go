package privilege

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// precedence is a nice value with which superd gets nine times the processor time of a program that wants as much as it can get.
const precedence = -10

// Precedence returns a function that has the kernel serve this process's session before others, or, with false, as it serves those. Each program is a
// session of its own, and where the scheduler gives each session as much as the next one (autogroups, as is the default) superd would get one share of a
// thousand while a thousand programs start. A session that belongs to somebody else, as that of a shell, is left alone, and so is one that has got
// a nice value already: leader is whose it is. It returns nil then, and where there are no autogroups or superd may not.
//
// Source: sched(7), the autogroup feature.
func Precedence(leader int) func(bool) error {
	const path = "/proc/self/autogroup"
	if sid, err := unix.Getsid(0); err != nil || sid != leader || !has(unix.CAP_SYS_NICE) || !has(unix.CAP_SYS_ADMIN) { // without the latter, changes are rationed
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var group, nice int
	if n, _ := fmt.Sscanf(string(text), "/autogroup-%d nice %d", &group, &nice); n < 2 || nice != 0 && nice != precedence {
		return nil
	}
	set := func(first bool) error {
		value := 0
		if first {
			value = precedence
		}
		return os.WriteFile(path, []byte(strconv.Itoa(value)), 0)
	}
	if nice == precedence && set(false) != nil { // one was killed while it had it
		return nil
	}
	return set
}
