// Package footprint has a process take memory when it is in a hurry, and give back what it does not need at rest.
package footprint

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Release gives back what a burst of work took, as the start, and what will not be needed again soon. Then it is calm, and last come the pages of the program,
// those among them that all this has needed. It takes a while: some milliseconds, and more with a large heap.
func Release(calm func()) {
	debug.FreeOSMemory()
	calm()
	ReleaseProgram()
}

// ReleaseProgram gives back the pages of the executable that hold code and constants. Those that are needed come back from the page cache when
// they are touched; those that only the start has touched, as packages were initialised, don't. Pages that can be written are left.
//
// Source: madvise(2), MADV_DONTNEED; proc_pid_maps(5).
func ReleaseProgram() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[5] != exe || f[1][0] != 'r' || f[1][1] == 'w' {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil {
			syscall.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
