package loop

import "errors"

// ErrClosed is the cause when a descriptor is to be watched in a scope that is closed.
var ErrClosed = errors.New("scope is closed")

// A Scope owns watches, timers, deferred functions and further scopes, and releases them when it is
// closed. Whatever has a life, such as a connection or the run of a program, has a scope: what it
// registers there can't be forgotten.
type Scope struct {
	link
	loop   *Loop
	newest *link
	closed bool
}

// Child returns a new scope that is closed with s at the latest. It is closed already if s is.
func (s *Scope) Child() *Scope {
	c := new(Scope)
	c.Open(s)
	return c
}

// Open makes s, the zero Scope, what [Scope.Child] of parent returns: for a scope that is a field of what has that life, and no allocation of its own.
func (s *Scope) Open(parent *Scope) {
	s.loop, s.closed = parent.loop, parent.closed
	if !s.closed {
		parent.Adopt(&s.link, s)
	}
}

// Detach takes s from the scope that owns it. From then on only Close closes it, so that whoever has it must
// not forget to.
func (s *Scope) Detach() { s.leave() }

// Defer has f run when s is closed. If s is closed, it runs at once.
func (s *Scope) Defer(f func()) *Deferred {
	d := &Deferred{f: f}
	if s.closed {
		f()
	} else {
		s.Adopt(&d.link, d)
	}
	return d
}

// Close releases what s owns, newest first, each exactly once: it stops watches and timers, runs
// deferred functions and closes child scopes. It may be called in any callback, in a deferred function
// too, and again: when it returns everything is released but for the deferred functions that it was
// called from. If a deferred function panics, the rest is released before the panic goes on.
//
// A closed scope accepts everything and does nothing: its timers never fire, and watching returns
// [ErrClosed].
func (s *Scope) Close() {
	if s == s.loop.root {
		s.loop.Stop()
	}
	s.Release()
}

// Loop returns the loop that s belongs to.
func (s *Scope) Loop() *Loop { return s.loop }

// Closed reports whether s is closed or being closed.
func (s *Scope) Closed() bool { return s.closed }

// Release implements [Owned]: it is Close, without the rule for the root.
func (s *Scope) Release() {
	s.closed = true
	defer func() {
		if s.newest != nil { // a deferred function has panicked
			s.Release()
		}
		s.leave() // last: closing the parent meanwhile has to find what is left
	}()
	for s.newest != nil {
		s.newest.owned.Release()
	}
}

// Adopt makes o, of which k is a field, what s owns: o is released when s is closed, or now if it is. So something that lives for long needs neither a deferred
// function nor the allocations for one.
func (s *Scope) Adopt(k *Link, o Owned) {
	if s.closed {
		o.Release()
		return
	}
	k.scope, k.owned, k.older = s, o, s.newest
	if s.newest != nil {
		s.newest.newer = k
	}
	s.newest = k
}

// Leave takes out of its scope's list what is owned by way of k; that is what its Release begins with.
func Leave(k *Link) { k.leave() }

// An Owned is what a scope owns. When it is released it leaves the scope, see [Leave].
type Owned interface{ Release() }

// A Link is the place of an [Owned] in the list of its scope.
type Link = link

// The list runs through what it holds, so
// that a registration is one allocation and leaves without a search.
type link struct {
	scope        *Scope // that owns it, or has owned it; nil: never owned
	owned        Owned  // nil: not owned, or not any more
	older, newer *link
}

// linked reports whether a scope owns what k is the place of.
func (k *link) linked() bool { return k.owned != nil }

// leave reports whether k was in the list.
func (k *link) leave() bool {
	if !k.linked() {
		return false
	}
	s := k.scope
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		s.newest = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	}
	k.owned, k.older, k.newer = nil, nil, nil
	return true
}

// A Deferred is a function for the end of a scope.
type Deferred struct {
	link
	f func()
}

// Stop has the function not run. It does nothing if it has run already, or runs.
func (d *Deferred) Stop() { d.leave() }

// Release implements [Owned].
func (d *Deferred) Release() {
	d.leave()
	d.f()
}
