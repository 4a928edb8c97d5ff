// Package gcpacer lets a process use more memory during bursts of work, and return memory that it
// does not need when idle.
package gcpacer

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Release returns the memory of a burst of work, such as the start, to the kernel and calls
// endBoost. Last it releases the pages of the executable, including those that Release itself has
// used. It takes some milliseconds, more with a large heap.
func Release(endBoost func()) {
	debug.FreeOSMemory()
	endBoost()
	ReleaseProgram()
}

// ReleaseProgram returns the pages of the executable that hold code and constants. Pages that are
// needed come back from the page cache on access; pages used only by the start, to initialise
// packages, do not. Writable pages are left.
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
