package procs

import "golang.org/x/sys/unix"

// ownMaxRSS returns the greatest resident memory that superd has had, in bytes. A child's begins there: see getrusage(2)
// and setmax_mm_hiwater_rss in the kernel's fs/exec.c.
func ownMaxRSS() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return int64(usage.Maxrss) << 10 // the kernel counts KiB
}
