package pidfd

import (
	"golang.org/x/sys/unix"
)

// MakeRoom has this process's table of descriptors have room for n of them, as far as its limit of open files goes, unless it has. Where there is more than one
// thread, each time that the table doubles the kernel waits until nobody can be looking at the smaller one: 8 to 24 ms, in which nobody gets a
// descriptor for which there is no room. So whoever is going to have many had best make room before, beside other work. What a process is to have
// from its birth on is [Attr].Room.
//
// Source: the kernel's expand_fdtable, which calls synchronize_rcu.
func MakeRoom(n int) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return // then there is more amiss than room
	}
	defer unix.Close(fd)
	if last, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, min(n, int(min(limit.Cur, 1<<30)))-1); err == nil {
		unix.Close(last)
	}
}
