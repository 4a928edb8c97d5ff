package pidfd

import (
	"golang.org/x/sys/unix"
)

// MakeRoom enlarges this process's descriptor table to n entries, within its limit on open files,
// unless it is that large. With several threads each doubling of the table makes the kernel wait
// until none can use the old one: 8 to 24 ms, in which calls that need new room block. So a process
// that will have many descriptors should make room in advance, beside other work. For room in a new
// process see [Attr].Room.
//
// Source: the kernel's expand_fdtable, which calls synchronize_rcu.
func MakeRoom(n int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // there are worse problems than room
	}
	defer unix.Close(fd)
	if last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, min(n, int(min(limit.Cur, 1<<30)))-1); err == nil {
		unix.Close(last)
	}
}
