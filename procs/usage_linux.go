package procs

import "golang.org/x/sys/unix"

// A maxRSS is the greatest resident memory that superd has had, as far as it is known, in bytes. A child's begins there: see getrusage(2) and
// setmax_mm_hiwater_rss in the kernel's fs/exec.c.
type maxRSS int64

// bounds reports whether a child's greatest memory of that size may be superd's own. The kernel is asked only where what is known doesn't tell:
// it goes through all of superd's threads.
func (m *maxRSS) bounds(child int64) bool {
	if child <= int64(*m) {
		return true
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err == nil {
		*m = maxRSS(usage.Maxrss) << 10 // the kernel counts KiB
	}
	return child <= int64(*m)
}
