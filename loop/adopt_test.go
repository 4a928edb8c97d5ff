package loop

import (
	"slices"
	"testing"
)

// A tenant is owned by a scope, without a deferred function.
type tenant struct {
	link      Link
	onRelease func()
	times     int
}

func (t *tenant) Release() {
	Unlink(&t.link)
	t.times++
	t.onRelease()
}

// TestAdopt: a scope releases what it has adopted once, in order with its other resources; at once
// if it is closed, and never if that was removed.
func TestAdopt(t *testing.T) {
	v := NewVirtual(1)
	var order []string
	note := func(s string) func() { return func() { order = append(order, s) } }
	s := v.Root().Child()
	first, second, third := &tenant{onRelease: note("first")}, &tenant{onRelease: note("second")}, &tenant{onRelease: note("gone")}
	s.Adopt(&first.link, first)
	s.Defer(note("deferred"))
	s.Adopt(&second.link, second)
	s.Adopt(&third.link, third)
	Unlink(&third.link)
	s.Close()
	s.Close()
	if want := []string{"second", "deferred", "first"}; !slices.Equal(order, want) {
		t.Errorf("released are %q, want %q", order, want)
	}
	late := &tenant{onRelease: note("late")}
	if s.Adopt(&late.link, late); late.times != 1 {
		t.Errorf("what a closed scope adopts is released %d times, want once", late.times)
	}
	// A closed scope may be opened again, and adopt again what was released.
	s.Open(v.Root())
	s.Adopt(&first.link, first)
	if s.Close(); first.times != 2 {
		t.Errorf("what was adopted twice is released %d times, want 2", first.times)
	}
}

// TestWatchInAField: a watch that is a field behaves like one from [Scope.OnReadable].
func TestWatchInAField(t *testing.T) {
	onEach(t, func(r *rig) {
		var w Watch
		fd, calls := r.open(), 0
		r.fill(fd)
		s := r.Root().Child()
		if err := w.OnReadable(s, fd, func() {
			calls++
			w.Stop()
		}); err != nil {
			r.Fatal(err)
		}
		r.stopAfter(3)
		r.run()
		if calls != 1 {
			r.Errorf("called %d times, want once: it was stopped", calls)
		}
		s.Close()
		var late Watch
		if err := late.OnReadable(s, fd, func() {}); err == nil {
			r.Error("a closed scope takes a watch")
		}
	})
}
