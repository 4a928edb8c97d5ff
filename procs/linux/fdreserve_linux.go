package linux

import "golang.org/x/sys/unix"

// headroom is how many descriptors must be free when a start begins, for control, the journal and
// the logs: starts keep the descriptors that they take.
const headroom = 16

// checkHeadroom fails with EMFILE if fewer than headroom descriptors are free. open is any
// descriptor.
func checkHeadroom(open int) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for range headroom {
		free, err := unix.FcntlInt(uintptr(open), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(free)
		// The kernel allocates the lowest number: if that is far below the limit, enough are free.
		if uint64(free)+64*headroom < limit.Cur {
			break
		}
	}
	return nil
}
