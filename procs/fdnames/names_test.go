package fdnames

import (
	"strconv"
	"testing"
)

func TestNamesAreNotReused(t *testing.T) {
	s := New()
	s.Know("7")
	s.Know("no number")
	if first, second := s.Take(0), s.Take(0); first != "8" || second != "9" {
		t.Errorf("the first names are %q and %q, want 8 and 9", first, second)
	}
	s.Drop("9")
	s.Drop("9")
	if s.Has("9") || !s.Has("8") || s.Has("7") || s.Len() != 1 {
		t.Errorf("9 in use: %v, 8: %v, 7: %v, %d names; want only 8", s.Has("9"), s.Has("8"), s.Has("7"), s.Len())
	}
	if name := s.Take(0); name != "10" {
		t.Errorf("after a name was dropped, the next one is %q, want 10", name)
	}
}

// TestSpace: names are refused when they would be too long, and the space of dropped ones is free
// again.
func TestSpace(t *testing.T) {
	s := New()
	for s.Take(100) != "" {
	}
	refused := s.Len()
	if s.Take(0) == "" {
		t.Fatal("no name is left for what space is reserved for")
	}
	for s.Take(0) != "" {
	}
	if more := s.Len() - refused; more != 100 {
		t.Errorf("%d reserved names, want 100", more)
	}
	if want := maxBytes - s.bytes; want >= 6 {
		t.Errorf("%d bytes are left", want)
	}
	for n := range s.Len() {
		s.Drop(strconv.Itoa(n))
	}
	if s.bytes != 0 || len(s.used) != 0 {
		t.Errorf("without names, %d bytes and %d entries are in use", s.bytes, len(s.used))
	}
}
