package privilege

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// precedence is a nice value at which superd gets nine times the processor time of a busy program.
const precedence = -10

// Precedence returns a function that raises the scheduling priority of this process's session
// (true) or resets it (false). Each program is a session of its own. If the scheduler gives equal
// shares to sessions (autogroups, the default), superd would get one share of a thousand while a
// thousand programs start.
//
// It returns nil if leader does not lead the session, as in that of a shell, or if the session
// already has a nice value. It also returns nil without autogroups, or without the rights.
//
// Source: sched(7), the autogroup feature.
func Precedence(leader int) func(bool) error {
	const path = "/proc/self/autogroup"
	// Without CAP_SYS_ADMIN the kernel rate-limits changes.
	if sid, err := unix.Getsid(0); err != nil || sid != leader || !has(unix.CAP_SYS_NICE) || !has(unix.CAP_SYS_ADMIN) {
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
	if nice == precedence && set(false) != nil { // left by a superd that was killed
		return nil
	}
	return set
}
