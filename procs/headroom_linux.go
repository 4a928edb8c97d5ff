package procs

import (
	"golang.org/x/sys/unix"
)

// headroom is how many descriptors a start leaves free when it begins, for control, the journal and the logs: what starts have taken, they keep.
const headroom = 16

// checkHeadroom fails with EMFILE where fewer than headroom descriptors are free.
func checkHeadroom() error {
	null, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for range headroom {
		free, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(free)
		// The lowest is given out first: as long as that is far below the limit, there are enough.
		if uint64(free)+64*headroom < limit.Cur {
			break
		}
	}
	return nil
}
