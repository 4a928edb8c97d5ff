package handover

import (
	"strconv"
	"testing"
)

func TestNamesAreNotReused(t *testing.T) {
	s := newNameSet()
	s.know("7")
	s.know("no number")
	if first, second := s.take(0), s.take(0); first != "8" || second != "9" {
		t.Errorf("the first names are %q and %q, want 8 and 9", first, second)
	}
	s.drop("9")
	s.drop("9")
	if s.has("9") || !s.has("8") || s.has("7") || s.count != 1 {
		t.Errorf("9 in use: %v, 8: %v, 7: %v, %d names; want only 8", s.has("9"), s.has("8"), s.has("7"), s.count)
	}
	if name := s.take(0); name != "10" {
		t.Errorf("after a name was dropped, the next one is %q, want 10", name)
	}
}

// TestSpace: names are refused when they would be too long, and the space of dropped ones is free
// again.
func TestSpace(t *testing.T) {
	s := newNameSet()
	for s.take(100) != "" {
	}
	refused := s.count
	if s.take(0) == "" {
		t.Fatal("no name is left for what space is reserved for")
	}
	for s.take(0) != "" {
	}
	if more := s.count - refused; more != 100 {
		t.Errorf("%d reserved names, want 100", more)
	}
	if want := maxNameBytes - s.bytes; want >= 6 {
		t.Errorf("%d bytes are left", want)
	}
	for n := range s.count {
		s.drop(strconv.Itoa(n))
	}
	if s.bytes != 0 || len(s.used) != 0 {
		t.Errorf("without names, %d bytes and %d entries are in use", s.bytes, len(s.used))
	}
}
