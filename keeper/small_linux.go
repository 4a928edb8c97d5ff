package keeper

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StaySmall has Go spend time rather than memory. It comes first of all.
func StaySmall() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(10)
}

// smallPause is how long a supervisor that is ready may have something to tell.
const smallPause = time.Second

// becomeSmallSoon has the keeper become small once it has come to rest.
func (k *Keeper) becomeSmallSoon() {
	k.scope.After(smallPause, func() { go becomeSmall() }) // it takes a while
}

// becomeSmall gives back the memory that the start took, and will not be needed again soon.
func becomeSmall() {
	debug.FreeOSMemory()
	releaseProgram()
}

// releaseProgram unmaps the pages of the executable that hold code and constants. Those that are needed come back from the page cache when
// they are touched; those that only the start has touched, as packages were initialised, don't. Pages that can be written are left.
//
// Source: madvise(2), MADV_DONTNEED; proc_pid_maps(5).
func releaseProgram() {
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
