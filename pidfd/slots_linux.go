//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// slots is how many descriptors, other than low ones, a child may get through Slots.
const slots = 4

// Slots are a few low descriptor numbers, reserved at the start. A child that gets its files
// through them needs a copy of only the lowest part of this process's table. Otherwise each fork
// copies all of it and each exec closes the copy, so that starting n programs takes time that grows
// with n².
//
// Source: close_range(2), CLOSE_RANGE_UNSHARE.
type Slots struct {
	empty  int       // duplicated into unused slots
	keepFD int       // descriptor that each child keeps until its exec; -1: none
	end    int       // above all slots; 0: there are none
	forks  sync.Pool // of *cloneSpec, for reuse

	mu   sync.Mutex
	free [][]int      // sets not in use
	busy []*cloneSpec // forks in progress that have a set
}

// borrow returns a cloneSpec to fill.
func (s *Slots) borrow() *cloneSpec {
	if f, ok := s.forks.Get().(*cloneSpec); ok {
		return f
	}
	return newCloneSpec()
}

// recycle takes a cloneSpec back after its fork.
func (s *Slots) recycle(f *cloneSpec) {
	f.Reset()
	f.progress = nil
	s.forks.Put(f)
}

// ReserveSlots reserves the numbers for this many concurrent forks. Children beyond that
// get copies of all descriptors, and so do all children if the kernel or a filter lacks close_range
// (Linux 5.9). Each child also has keepFD, which should be a low number, until it executes its
// program.
func ReserveSlots(keepFD, forks int) (*Slots, error) {
	s := &Slots{keepFD: keepFD}
	if !hasCloseRange() {
		s.empty = -1
		return s, nil
	}
	fd, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve descriptors: %w", err)
	}
	s.empty, s.end = fd, max(fd, keepFD)+1
	for range forks {
		set := make([]int, slots)
		for i := range set {
			if set[i], err = unix.FcntlInt(uintptr(s.empty), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				closeAll(set[:i])
				s.Close()
				return nil, fmt.Errorf("reserve descriptors: %w", err)
			}
			s.end = max(s.end, set[i]+1)
		}
		s.free = append(s.free, set)
	}
	return s, nil
}

// Close releases the numbers, except those of forks in progress.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeAll(slices.Concat(s.free...))
	s.free = nil
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

// assign gives f a set of slots, if one is free. A child with its own descriptor table no longer
// needs its set, though its exec may hang.
func (s *Slots) assign(f *cloneSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		for _, other := range s.busy {
			if atomic.LoadUint32(&other.OwnTable) != 0 {
				s.release(other)
				break
			}
		}
	}
	if n := len(s.free); n > 0 {
		f.set = s.free[n-1]
		s.free = s.free[:n-1]
		s.busy = append(s.busy, f)
	}
}

// releaseSet releases the set of f.
func (s *Slots) releaseSet(f *cloneSpec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(f)
}

// release empties the used slots of f, and frees the set. The caller holds s.mu.
func (s *Slots) release(f *cloneSpec) {
	if f.set == nil {
		return
	}
	for _, fd := range f.set[:f.used] {
		unix.Dup3(s.empty, fd, unix.O_CLOEXEC)
	}
	s.free = append(s.free, f.set)
	s.busy = slices.DeleteFunc(s.busy, func(other *cloneSpec) bool { return other == f })
	f.set, f.used = nil, 0
}

// closeRanges appends to ranges the numbers, from and to, that a child with these files does not
// need before its exec. Otherwise they would stay open until then, such as a pipe whose end another
// process awaits.
func (s *Slots) closeRanges(ranges [][2]uintptr, files []int) [][2]uintptr {
	for next := 0; next < s.end; {
		needed := s.end // the lowest one from next on
		for _, fd := range files {
			if fd >= next {
				needed = min(needed, fd)
			}
		}
		if s.keepFD >= next {
			needed = min(needed, s.keepFD)
		}
		if needed > next {
			ranges = append(ranges, [2]uintptr{uintptr(next), uintptr(needed - 1)})
		}
		next = needed + 1
	}
	return ranges
}

// fill puts files into the slots of f and updates files with their numbers. It reports whether
// there was room.
func (s *Slots) fill(f *cloneSpec, files []int) (ok bool) {
	// The slots of f may be reused once its child has its own table. That is after this code, but
	// the race detector can't see it, since the child is another process.
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.set == nil {
		return false
	}
	var from [slots]int
	for i, fd := range files {
		if fd < s.end {
			continue
		}
		if j := slices.Index(from[:f.used], fd); j >= 0 {
			files[i] = f.set[j]
			continue
		}
		if f.used == len(f.set) || unix.Dup3(fd, f.set[f.used], unix.O_CLOEXEC) != nil {
			return false
		}
		files[i], from[f.used] = f.set[f.used], fd
		f.used++
	}
	return true
}
