package pidfd

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// slots is how many descriptors, other than those that lie low anyway, a child may get through Slots.
const slots = 4

// Slots are a few descriptor numbers, taken while there are few descriptors. A child that gets its files through them needs a copy of the lowest part of
// our table only: without, each birth copies all of it and each exec closes the copy, so that starting n programs takes time that grows with n².
//
// Source: close_range(2), CLOSE_RANGE_UNSHARE.
type Slots struct {
	mu    sync.Mutex
	empty int // what lies in a slot that is not in use
	held  int // what each child has until its exec; -1: nothing
	fds   []int
	end   int // above all of them
}

// ReserveSlots takes the numbers. Each child has held, too, until it executes its program; it had best lie low. Where the kernel or a filter of system calls
// does not know close_range (Linux 5.9), the children get copies of all.
func ReserveSlots(held int) (*Slots, error) {
	s := &Slots{held: held}
	if unix.CloseRange(1, 0, closeRangeUnshare) != unix.EINVAL { // that, if it is known: the range is none
		s.empty = -1
		return s, nil
	}
	fd, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve descriptors: %w", err)
	}
	s.empty, s.end = fd, max(fd, held)+1
	for range slots {
		if fd, err = unix.FcntlInt(uintptr(s.empty), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			s.Close()
			return nil, fmt.Errorf("reserve descriptors: %w", err)
		}
		s.fds = append(s.fds, fd)
		s.end = max(s.end, fd+1)
	}
	return s, nil
}

// Close gives the numbers back.
func (s *Slots) Close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	s.fds = nil
	if s.empty >= 0 {
		unix.Close(s.empty)
	}
	s.empty = -1
}

// fill puts files into the slots, has files say where each is, and reports whether there was room. The caller holds s.mu, and clears them in any case.
func (s *Slots) fill(files []int) (used int, ok bool) {
	if len(s.fds) == 0 {
		return 0, false
	}
	for i, fd := range files {
		if fd < s.end {
			continue
		}
		if used == len(s.fds) || unix.Dup3(fd, s.fds[used], unix.O_CLOEXEC) != nil {
			return used, false
		}
		files[i] = s.fds[used]
		used++
	}
	return used, true
}

// clear empties as many slots.
func (s *Slots) clear(used int) {
	for _, fd := range s.fds[:used] {
		unix.Dup3(s.empty, fd, unix.O_CLOEXEC)
	}
}
