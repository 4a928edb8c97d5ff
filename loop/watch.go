package loop

import (
	"errors"
	"fmt"
	"syscall"
)

// A Watch calls a function when a descriptor is ready. The watch does not own the descriptor: stop
// it, or close its scope, before the descriptor is closed.
//
// Several watches may share a descriptor, either all level-triggered or all edge-triggered. They
// are called newest first. Since one may consume what another was to be called for, descriptors
// should be non-blocking.
type Watch struct {
	link
	f func()
	// Next older watch of the same descriptor; stays set when stopped, for dispatch
	next     *Watch
	fd       int32
	interest Ready
}

// OnReadable calls f in each turn in which fd is readable, hung up or in error.
//
// Like the others, it fails with syscall.EBADF if fd is closed, syscall.EPERM if fd is always ready
// like a regular file, syscall.ENOSPC at the limit of epoll watches, and [ErrClosed] if s is
// closed.
func (s *Scope) OnReadable(fd int, f func()) (*Watch, error) {
	return s.watch(fd, Readable, false, f)
}

// OnReadable turns w, the zero Watch, into what [Scope.OnReadable] of s returns. It serves watches
// that are fields of a larger object. w is for one descriptor, and must not be reused.
func (w *Watch) OnReadable(s *Scope, fd int, f func()) error {
	return w.begin(s, fd, Readable, false, f)
}

// OnReadableEdge calls f when fd becomes readable, hung up or in error, and when more arrives. f
// must read all available data, since the rest is not reported again. It may be called without
// cause.
func (s *Scope) OnReadableEdge(fd int, f func()) (*Watch, error) {
	return s.watch(fd, Readable, true, f)
}

// OnWritable calls f in each turn in which fd is writable, hung up or in error.
func (s *Scope) OnWritable(fd int, f func()) (*Watch, error) {
	return s.watch(fd, Writable, false, f)
}

// OnHangup calls f in each turn in which fd is hung up or in error, readable or not.
func (s *Scope) OnHangup(fd int, f func()) (*Watch, error) {
	return s.watch(fd, Hangup, false, f)
}

// Stop ends the watch. It is not called again, even if it is ready in this turn. It does nothing
// for a nil or stopped watch.
func (w *Watch) Stop() {
	if w == nil {
		return
	}
	if w.unlink() {
		w.scope.loop.unregister(w)
	}
}

// Release implements [Owned].
func (w *Watch) Release() { w.Stop() }

// A slot is the state of a descriptor number.
type slot struct {
	newest     *Watch // nil: not watched
	generation uint32 // generation of the current or last registration
	edge       bool
}

func (s *Scope) watch(fd int, interest Ready, edge bool, f func()) (*Watch, error) {
	w := new(Watch)
	if err := w.begin(s, fd, interest, edge, f); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Watch) begin(s *Scope, fd int, interest Ready, edge bool, f func()) error {
	w.f, w.fd, w.interest = f, int32(fd), interest
	err := ErrClosed
	if !s.closed {
		err = s.loop.register(w, edge)
	}
	if err != nil {
		return fmt.Errorf("watch descriptor %d: %w", fd, err)
	}
	s.Adopt(&w.link, w)
	return nil
}

// register adds w to the watches of its descriptor, and its conditions to the poller.
func (l *Loop) register(w *Watch, edge bool) error {
	fd := int(w.fd)
	var sl slot
	if fd >= 0 && fd < len(l.slots) {
		sl = l.slots[fd]
	}
	if sl.newest != nil {
		err := l.share(w, sl, edge)
		if !errors.Is(err, syscall.ENOENT) {
			return err
		}
		// The descriptor was closed while it was watched; this is another one with the same number.
		l.disown(fd)
		sl.newest = nil
	}

	sl.generation++
	sl.edge = edge
	if err := l.poller.add(fd, registration{w.interest, edge, sl.generation}); err != nil {
		return err
	}
	for len(l.slots) <= fd {
		l.slots = append(l.slots, slot{})
	}
	sl.newest = w
	l.slots[fd] = sl
	return nil
}

// share adds w to the existing watches of a descriptor.
func (l *Loop) share(w *Watch, sl slot, edge bool) error {
	// Call the poller even if nothing changes for it: only it knows whether the descriptor is still
	// the same.
	r := registration{sl.interest(), sl.edge, sl.generation}
	if edge == sl.edge {
		r.interest |= w.interest
	}
	if err := l.poller.modify(int(w.fd), r); err != nil {
		return err
	}
	if edge != sl.edge {
		return errors.New("level-triggered and edge-triggered watches of one descriptor")
	}
	w.next = sl.newest
	l.slots[w.fd].newest = w
	return nil
}

// disown removes the watches of a number whose registration no longer exists.
func (l *Loop) disown(fd int) {
	for w := l.slots[fd].newest; w != nil; w = w.next {
		w.unlink()
	}
	l.slots[fd].newest = nil
}

// unregister removes w from the watches of its descriptor, and conditions that only w needs from
// the poller.
func (l *Loop) unregister(w *Watch) {
	sl := &l.slots[w.fd]
	before := sl.interest()
	at := &sl.newest
	for *at != w {
		at = &(*at).next
	}
	*at = w.next

	switch interest := sl.interest(); {
	case sl.newest == nil:
		l.poller.remove(int(w.fd))
	case interest != before:
		// It fails only if the descriptor is closed; then there is nothing to change.
		_ = l.poller.modify(int(w.fd), registration{interest, sl.edge, sl.generation})
	}
}

// interest returns the conditions that the watches of a number need together.
func (s slot) interest() Ready {
	var interest Ready
	for w := s.newest; w != nil; w = w.next {
		interest |= w.interest
	}
	return interest
}

// dispatch calls the watches that e is for. An event of an earlier generation was for another
// descriptor with the same number, or for a stopped watch.
func (l *Loop) dispatch(e event) {
	if e.fd >= len(l.slots) || l.slots[e.fd].generation != e.generation {
		return
	}
	// A callback may stop and add watches. New ones are inserted before w; a stopped one still
	// links to older ones.
	for w := l.slots[e.fd].newest; w != nil; w = w.next {
		if w.linked() && e.ready&(w.interest|Hangup) != 0 {
			w.f()
		}
	}
}
