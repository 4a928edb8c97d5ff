package loop

import "errors"

// ErrClosed is the error when a descriptor is watched in a closed scope.
var ErrClosed = errors.New("scope is closed")

// A Scope owns watches, timers, deferred functions and child scopes, and releases them when it is
// closed. Anything with a lifetime, such as a connection or the run of a program, has a scope, so
// that none of its registrations can be forgotten.
type Scope struct {
	link
	loop   *Loop
	newest *link
	closed bool
}

// Child returns a new scope that is closed with s at the latest. If s is closed, so is the child.
func (s *Scope) Child() *Scope {
	c := new(Scope)
	c.Open(s)
	return c
}

// Open turns s, the zero Scope, into what [Scope.Child] of parent returns. It serves scopes that
// are fields of a larger object, without an allocation.
func (s *Scope) Open(parent *Scope) {
	s.loop, s.closed = parent.loop, parent.closed
	if !s.closed {
		parent.Adopt(&s.link, s)
	}
}

// Detach removes s from the scope that owns it. After that only Close closes it.
func (s *Scope) Detach() { s.unlink() }

// Defer runs f when s is closed. If s is closed already, it runs f at once.
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
// deferred functions and closes child scopes. It may be called in any callback, also in a deferred
// function, and repeatedly. When it returns everything is released, except deferred functions that
// are its callers. If a deferred function panics, the rest is released before the panic continues.
//
// A closed scope accepts all calls and ignores them: its timers never fire, and watching returns
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

// Release implements [Owned]. It is Close without the special case of the root.
func (s *Scope) Release() {
	s.closed = true
	defer func() {
		if s.newest != nil { // a deferred function has panicked
			s.Release()
		}
		s.unlink() // last, so that closing the parent meanwhile finds what is left
	}()
	for s.newest != nil {
		s.newest.owned.Release()
	}
}

// Adopt makes s own o, of which k is a field: o is released when s is closed, or now if it is. So a
// long-lived object needs no deferred function, and no allocations for one.
func (s *Scope) Adopt(k *Link, o Owned) {
	k.scope = s
	if s.closed {
		o.Release()
		return
	}
	k.owned, k.older = o, s.newest
	if s.newest != nil {
		s.newest.newer = k
	}
	s.newest = k
}

// Unlink removes the owner of k from its scope. Release must call it first.
func Unlink(k *Link) { k.unlink() }

// ScopeOf returns the scope that owns what k is part of, or did last.
func ScopeOf(k *Link) *Scope { return k.scope }

// An Owned is an object that a scope owns. Its Release must call [Unlink].
type Owned interface{ Release() }

// A Link is the position of an [Owned] in the list of its scope.
type Link = link

// The list is intrusive, so that a registration is one allocation and is removed without a search.
type link struct {
	scope        *Scope // current or former owner; nil: never owned
	owned        Owned  // nil: not owned
	older, newer *link
}

// linked reports whether a scope owns the object of k.
func (k *link) linked() bool { return k.owned != nil }

// unlink removes k from its list, and reports whether it was in one.
func (k *link) unlink() bool {
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

// A Deferred is a function to run at the end of a scope.
type Deferred struct {
	link
	f func()
}

// Stop removes the function. It does nothing if the function has run, or is running.
func (d *Deferred) Stop() { d.unlink() }

// Release implements [Owned].
func (d *Deferred) Release() {
	d.unlink()
	d.f()
}
