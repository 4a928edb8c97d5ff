// Package fdnames keeps account of the names under which descriptors are stored for a successor.
//
// Names are numbers. A name is not used twice: after a crash a successor cannot tell whether the
// journal or the descriptor store was updated last, so both may refer to an old descriptor of that
// name. A [Set] belongs to the goroutine of its caller.
package fdnames

import "strconv"

// maxBytes bounds the total length of the names. A successor gets all of them in one environment
// variable, which can have 128 KiB.
const maxBytes = 100 << 10

// A Set has the names in use.
type Set struct {
	used  map[int32]uint64 // bitmap, 64 names per entry
	count int
	next  int32 // greater than all names so far
	bytes int   // total length of the names, with a separator each
}

// New returns a set without names.
func New() *Set { return &Set{used: map[int32]uint64{}} }

// Take returns a new name, which is in use; "" if there is no space for it besides that many other
// names.
func (s *Set) Take(reserved int) (name string) {
	name = strconv.Itoa(int(s.next))
	if maxBytes-s.bytes-len(name)-1-reserved*len("12345:") < 0 {
		return ""
	}
	s.Use(name)
	s.next++
	return name
}

// Know marks a name that a predecessor has used, so that it is not taken.
func (s *Set) Know(name string) {
	if n, ok := parse(name); ok {
		s.next = max(s.next, n+1)
	}
}

// Has reports whether the name is in use.
func (s *Set) Has(name string) bool {
	n, ok := parse(name)
	return ok && n >= 0 && s.used[n/64]&(1<<(n%64)) != 0
}

// Use marks a name as in use.
func (s *Set) Use(name string) {
	if n, ok := parse(name); ok && n >= 0 && !s.Has(name) {
		s.used[n/64] |= 1 << (n % 64)
		s.count++
		s.bytes += len(name) + 1
	}
}

// Drop marks a name as no longer in use.
func (s *Set) Drop(name string) {
	if n, ok := parse(name); ok && s.Has(name) {
		if s.used[n/64] &^= 1 << (n % 64); s.used[n/64] == 0 {
			delete(s.used, n/64)
		}
		s.count--
		s.bytes -= len(name) + 1
	}
}

// Len returns the number of names in use.
func (s *Set) Len() int { return s.count }

func parse(name string) (n int32, ok bool) {
	parsed, err := strconv.ParseInt(name, 10, 32)
	return int32(parsed), err == nil
}
