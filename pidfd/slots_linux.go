package pidfd

import (
	"fmt"
	"slices"
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
	empty int        // what lies in a slot that is not in use
	held  int        // what each child has until its exec; -1: nothing
	sets  chan []int // those that no birth uses; where there are none at all, nil instead of each
	end   int        // above all of them
	forks sync.Pool  // of *fork, for the next birth
}

// maxForkText is how much text a fork may have that is kept, in bytes: hardly any program has an environment as large.
const maxForkText = 32 << 10

// borrow returns a fork to be filled.
func (s *Slots) borrow() *fork {
	if f, ok := s.forks.Get().(*fork); ok {
		return f
	}
	return new(fork)
}

// giveUp takes one back whose birth is over.
func (s *Slots) giveUp(f *fork) {
	if cap(f.text) <= maxForkText {
		clear(f.pointers)
		*f = fork{text: f.text, pointers: f.pointers, files: f.files, leaves: f.leaves}
		s.forks.Put(f)
	}
}

// ReserveSlots takes the numbers for so many births at a time: others wait for them, by ordinary means. Each child
// has held, too, until it executes its program; it had best lie low. Where the kernel or a filter of system calls does not know close_range (Linux 5.9),
// the children get copies of all.
func ReserveSlots(held, births int) (*Slots, error) {
	s := &Slots{held: held, sets: make(chan []int, births)}
	if unix.CloseRange(1, 0, closeRangeUnshare) != unix.EINVAL { // that, if it is known: the range is none
		s.empty = -1
		for range births {
			s.sets <- nil
		}
		return s, nil
	}
	fd, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve descriptors: %w", err)
	}
	s.empty, s.end = fd, max(fd, held)+1
	for range births {
		set := make([]int, slots)
		for i := range set {
			if set[i], err = unix.FcntlInt(uintptr(s.empty), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				closeAll(set[:i])
				s.Close()
				return nil, fmt.Errorf("reserve descriptors: %w", err)
			}
			s.end = max(s.end, set[i]+1)
		}
		s.sets <- set
	}
	return s, nil
}

// Close gives the numbers back, but for those of births that are under way.
func (s *Slots) Close() {
	for len(s.sets) > 0 {
		closeAll(<-s.sets)
	}
	if s.empty >= 0 {
		unix.Close(s.empty)
	}
	s.empty = -1
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// take returns a set of slots when there is one that no birth uses.
func (s *Slots) take() (set []int) { return <-s.sets }

// leave appends to ranges the numbers that a child with these files need not have until its exec, from and to: what lies there would stay open for as long,
// such as a pipe whose end somebody waits for.
func (s *Slots) leave(ranges [][2]uintptr, files []int) [][2]uintptr {
	for next := 0; next < s.end; {
		kept := s.end // the lowest from next on
		for _, fd := range files {
			if fd >= next {
				kept = min(kept, fd)
			}
		}
		if s.held >= next {
			kept = min(kept, s.held)
		}
		if kept > next {
			ranges = append(ranges, [2]uintptr{uintptr(next), uintptr(kept - 1)})
		}
		next = kept + 1
	}
	return ranges
}

// giveBack empties those slots of a set that were used.
func (s *Slots) giveBack(set []int, used int) {
	for _, fd := range set[:used] {
		unix.Dup3(s.empty, fd, unix.O_CLOEXEC)
	}
	s.sets <- set
}

// fill puts files into the slots of a set, has files say where each is, and reports whether there was room.
func (s *Slots) fill(set, files []int) (used int, ok bool) {
	if set == nil {
		return 0, false
	}
	var from [slots]int
	for i, fd := range files {
		if fd < s.end {
			continue
		}
		if j := slices.Index(from[:used], fd); j >= 0 {
			files[i] = set[j]
			continue
		}
		if used == len(set) || unix.Dup3(fd, set[used], unix.O_CLOEXEC) != nil {
			return used, false
		}
		files[i], from[used] = set[used], fd
		used++
	}
	return used, true
}
