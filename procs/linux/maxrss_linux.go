package linux

import "golang.org/x/sys/unix"

// A maxRSS is the greatest known resident memory of superd, in bytes. A child's maximum starts at
// that value: see getrusage(2) and setmax_mm_hiwater_rss in the kernel's fs/exec.c.
type maxRSS int64

// bounds reports whether a child's maximum of that size may be superd's own. It asks the kernel
// only if the known value does not decide: the kernel iterates over all of superd's threads.
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
