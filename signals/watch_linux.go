// Package signals brings the signals of this process to the event loop, and gives the process the
// clean start that a supervisor owes its children: nothing blocked, nothing ignored, and no
// descriptor passed on by accident.
//
// Dispositions are the process's own, and Go passes on to a child what it does not handle itself.
// So nothing here, or anywhere in a program that uses this package, calls signal.Ignore.
package signals

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// Watch has fn run on the loop when one of sigs has arrived, until s is closed. A burst coalesces:
// in one turn fn runs once for each distinct signal that is pending, in ascending order of numbers,
// and no distinct signal is lost. fn may close s.
//
// While a signal is watched, its default action in Go programs is off; it is back when the last watch
// of it is closed. SIGKILL and SIGSTOP cannot be watched. An error leaves nothing behind.
//
// This is the self-pipe trick: one byte in a pipe wakes the loop, and which signals there are stands
// in a set beside it.
func Watch(s *loop.Scope, fn func(syscall.Signal), sigs ...syscall.Signal) error {
	w, err := newWatch(s, fn)
	if err != nil {
		return fmt.Errorf("watch signals: %w", err)
	}
	for _, sig := range sigs {
		w.receive(sig)
	}
	return nil
}

// A watch is the pipe of one call of Watch and what feeds it.
type watch struct {
	scope *loop.Scope
	fn    func(syscall.Signal)
	r, w  int // the pipe, neither end ever blocks

	pending  atomic.Uint64 // a set
	channels []chan os.Signal
	forwards sync.WaitGroup // one for each channel
}

// newWatch returns a watch that delivers what is raised, and closes with s.
func newWatch(s *loop.Scope, fn func(syscall.Signal)) (*watch, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	w := &watch{scope: s.Child(), fn: fn, r: fds[0], w: fds[1]}
	// Deferred before the pipe is watched, so done after that watch has ended.
	w.scope.Defer(w.close)
	if _, err := w.scope.OnReadable(w.r, w.deliver); err != nil {
		w.scope.Close()
		return nil, err
	}
	return w, nil
}

// receive starts to forward sig. It gets a channel to itself with room for one: os/signal drops what
// does not fit, and so can only drop a signal that is pending anyway.
func (w *watch) receive(sig syscall.Signal) {
	c := make(chan os.Signal, 1)
	w.channels = append(w.channels, c)
	w.forwards.Go(func() {
		for range c {
			w.raise(sig)
		}
	})
	signal.Notify(c, sig)
}

// raise marks sig as pending and wakes the loop, unless there are signals pending that it has been
// woken for. So the pipe never fills up, however long the loop takes.
func (w *watch) raise(sig syscall.Signal) {
	if w.pending.Or(uint64(only(sig))) == 0 {
		unix.Write(w.w, []byte{0})
	}
}

// deliver calls fn for what is pending. It empties the pipe first: a signal that comes in between is
// delivered now, and its byte causes a turn in which there is nothing to do.
func (w *watch) deliver() {
	var buf [16]byte
	unix.Read(w.r, buf[:]) // not interrupted, as it never sleeps; were there more, it would be called again
	for sig := range set(w.pending.Swap(0)).all() {
		if w.scope.Closed() {
			return
		}
		w.fn(sig)
	}
}

// close ends the forwarding, then closes the pipe that it wrote to. It waits for what os/signal is
// delivering at the moment, which is short unless this process is flooded with signals.
func (w *watch) close() {
	for _, c := range w.channels {
		signal.Stop(c) // nothing is sent to c from here on
		close(c)
	}
	w.forwards.Wait()
	unix.Close(w.w)
	unix.Close(w.r)
}
