package loop

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestScopeReleasesNewestFirst(t *testing.T) {
	var got []string
	note := func(s string) func() { return func() { got = append(got, s) } }
	v := NewVirtual(1)
	outer := v.Root().Child()
	outer.Defer(note("a"))
	inner := outer.Child()
	inner.Defer(note("b"))
	tm := outer.After(time.Second, note("timer"))
	outer.Defer(func() { note("c")(); note(fmt.Sprint("timer active: ", tm.Active()))() })
	innermost := inner.Child()
	innermost.Defer(note("d"))
	inner.Defer(note("e"))
	outer.Child().Defer(note("f"))

	outer.Close()
	outer.Close()
	inner.Close()
	want := []string{"f", "c", "timer active: true", "e", "d", "b", "a"}
	if !slices.Equal(got, want) {
		t.Errorf("released in the order %q, want %q", got, want)
	}
	if !outer.Closed() || !inner.Closed() || !innermost.Closed() || v.Root().Closed() {
		t.Errorf("closed: outer %v, inner %v, innermost %v, root %v; want all but the root",
			outer.Closed(), inner.Closed(), innermost.Closed(), v.Root().Closed())
	}
	v.RunFor(time.Minute)
	if len(got) != len(want) {
		t.Errorf("called after the end: %q", got[len(want):])
	}
}

func TestCloseInDeferred(t *testing.T) {
	tests := []struct {
		name    string
		closeIt func(outer, inner *Scope)
	}{
		{"itself", func(_, inner *Scope) { inner.Close() }},
		{"its parent", func(outer, _ *Scope) { outer.Close() }},
		{"root", func(outer, _ *Scope) { outer.loop.Root().Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			note := func(s string) func() { return func() { got = append(got, s) } }
			outer := NewVirtual(1).Root().Child()
			outer.Defer(note("outer"))
			inner := outer.Child()
			inner.Defer(note("oldest"))
			inner.Defer(func() {
				note("begin")()
				tt.closeIt(outer, inner)
				note("end")()
			})
			inner.Defer(note("newest"))
			inner.Close()
			outer.Close()
			first := slices.Index(got, "oldest") < slices.Index(got, "outer")
			slices.Sort(got)
			want := []string{"begin", "end", "newest", "oldest", "outer"}
			if !slices.Equal(got, want) || !first {
				t.Errorf("released %q, child before parent: %v; want each of %q once, and true", got, first, want)
			}
		})
	}
}

func TestPanicInDeferred(t *testing.T) {
	var got []string
	note := func(s string) func() { return func() { got = append(got, s) } }
	v := NewVirtual(1)
	outer := v.Root().Child()
	outer.Defer(note("a"))
	inner := outer.Child()
	inner.Defer(note("b"))
	fd := v.NewFD()
	if _, err := inner.OnReadable(fd, note("read")); err != nil {
		t.Fatal(err)
	}
	inner.Defer(func() { panic("second") })
	inner.Defer(note("c"))
	inner.Defer(func() { panic("first") })

	func() {
		defer func() {
			if r := recover(); r != "second" {
				t.Errorf("Close panicked with %v, want the last panic, second", r)
			}
		}()
		outer.Close()
		t.Error("Close returned in spite of a panic")
	}()
	if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("released %q, want %q", got, want)
	}
	v.SetReady(fd, Readable)
	if v.Step() {
		t.Error("a watch is left")
	}
}

func TestDeferredStop(t *testing.T) {
	var got []string
	note := func(s string) func() { return func() { got = append(got, s) } }
	s := NewVirtual(1).Root().Child()
	s.Defer(note("a"))
	b := s.Defer(note("b"))
	var d *Deferred
	d = s.Defer(func() { d.Stop(); note("c")() })
	b.Stop()
	b.Stop()
	s.Close()
	s.Defer(note("late")).Stop()
	if want := []string{"c", "a", "late"}; !slices.Equal(got, want) {
		t.Errorf("ran %q, want %q", got, want)
	}
}

func TestDetach(t *testing.T) {
	v := NewVirtual(1)
	parent := v.Root().Child()
	s := parent.Child()
	ran := 0
	s.Defer(func() { ran++ })
	s.Detach()
	v.Root().Close()
	if s.Closed() || ran != 0 {
		t.Errorf("closed with its former owner: %v, ran %d times", s.Closed(), ran)
	}
	s.Close()
	if !s.Closed() || ran != 1 {
		t.Errorf("after Close: closed %v, ran %d times, want once", s.Closed(), ran)
	}
}

func TestLocal(t *testing.T) {
	type a struct{ n int }
	type b struct{ n int }
	one, other := NewVirtual(1), NewVirtual(1)
	Local[a](one.Loop).n = 1
	Local[b](one.Root().Loop()).n = 2
	got := []int{Local[a](one.Loop).n, Local[b](one.Loop).n, Local[a](other.Loop).n}
	if want := []int{1, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("values %v, want %v", got, want)
	}
}

func TestClosedScope(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.Root().Child()
		s.Close()
		never := func() { r.Error("a closed scope called something") }
		fd := r.open()
		r.fill(fd)
		for name, on := range map[string]func(int, func()) (*Watch, error){
			"OnReadable": s.OnReadable, "OnReadableEdge": s.OnReadableEdge,
			"OnWritable": s.OnWritable, "OnHangup": s.OnHangup,
		} {
			w, err := on(fd, never)
			if !errors.Is(err, ErrClosed) {
				r.Errorf("%s: %v, want %v", name, err, ErrClosed)
			}
			w.Stop()
		}
		after, every := s.After(0, never), s.Every(time.Nanosecond, never)
		if after.Active() || every.Active() {
			r.Error("a timer of a closed scope is active")
		}
		after.Stop()
		every.Stop()
		if c := s.Child(); !c.Closed() {
			r.Error("a child of a closed scope is open")
		}
		ran := 0
		s.Defer(func() { ran++ })
		if ran != 1 {
			r.Errorf("Defer ran its function %d times, want at once", ran)
		}
		s.Close()
		r.stopAfter(3)
		r.run()
	})
}

func TestClosingRootStopsRun(t *testing.T) {
	onEach(t, func(r *rig) {
		r.Post(r.Root().Close)
		r.Post(func() { r.Error("work ran after Root was closed") })
		r.run()
	})
}

// TestCloseInAnyCallback makes everything ready in one turn, in a tree of scopes, and closes one of
// the scopes in one of the callbacks. No callback of a closed scope may be called.
func TestCloseInAnyCallback(t *testing.T) {
	kinds := []string{"readable", "edge", "writable", "hangup", "timer", "tick", "work", "deferred"}
	targets := []string{"itself", "older", "newer", "own scope", "parent", "sibling", "root"}
	for _, kind := range kinds {
		for _, target := range targets {
			t.Run(kind+" closes "+target, func(t *testing.T) {
				onEach(t, func(r *rig) { testCloseInCallback(r, kind, target) })
			})
		}
	}
}

func testCloseInCallback(r *rig, kind, target string) {
	parent := r.Root().Child()
	scopes := map[string]*Scope{
		"parent":    parent,
		"older":     parent.Child(), // each is registered in its own scope, older than
		"own scope": parent.Child(), // the one that acts
		"newer":     parent.Child(),
		"sibling":   r.Root().Child(),
		"root":      r.Root(),
	}
	var own interface{ Stop() }
	stopped, acted := false, false
	act := func() {
		if acted {
			return
		}
		acted = true
		if target == "itself" {
			if stopped = own != nil; stopped {
				own.Stop()
			}
			return
		}
		scopes[target].Close()
	}
	for _, name := range []string{"parent", "older", "own scope", "newer", "sibling"} {
		s := scopes[name]
		for _, k := range []string{"readable", "edge", "writable", "hangup", "timer", "tick", "work"} {
			actor := name == "own scope" && k == kind
			f := func() {
				if s.Closed() {
					r.Errorf("%s in %s was called after it was closed", k, name)
				}
				if actor {
					if stopped {
						r.Errorf("%s was called after it was stopped", k)
					}
					act()
				}
			}
			reg := registerReady(r, s, k, f)
			if actor {
				own = reg
			}
		}
	}
	if kind == "deferred" {
		s := parent.Child()
		s.Defer(act)
		r.Post(s.Close)
	}
	r.Root().After(10*time.Microsecond, func() { r.stopAfter(3) })
	r.run()
	if !acted {
		r.Error("the callback that was to act was not called")
	}
}

// registerReady registers f so that it is called in the next turn.
func registerReady(r *rig, s *Scope, kind string, f func()) interface{ Stop() } {
	switch kind {
	case "readable", "edge":
		fd := r.open()
		r.fill(fd)
		if kind == "edge" {
			return r.must(s.OnReadableEdge(fd, f))
		}
		return r.must(s.OnReadable(fd, f))
	case "writable":
		return r.must(s.OnWritable(r.duplex(), f))
	case "hangup":
		fd := r.open()
		r.hangUp(fd)
		return r.must(s.OnHangup(fd, f))
	case "timer":
		return s.After(0, f)
	case "tick":
		return s.Every(time.Nanosecond, f)
	default:
		s.Post(f)
		return nil
	}
}
