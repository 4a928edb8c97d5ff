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

// A watch has a function called for what is caught.
type watch struct {
	*Caught
	scope *loop.Scope
	fn    func(syscall.Signal)
}

// newWatch returns a watch that delivers what is raised, and closes with s.
func newWatch(s *loop.Scope, fn func(syscall.Signal)) (*watch, error) {
	c, err := newCaught()
	if err != nil {
		return nil, err
	}
	w := &watch{c, s.Child(), fn}
	// Deferred before the pipe is watched, so done after that watch has ended.
	w.scope.Defer(w.close)
	if _, err := w.scope.OnReadable(w.r, w.deliver); err != nil {
		w.scope.Close()
		return nil, err
	}
	return w, nil
}

// A Caught is signals that don't take their default action, and wait for who watches them.
type Caught struct {
	r, w int // the pipe, neither end ever blocks

	pending  atomic.Uint64 // a set
	channels []chan os.Signal
	forwards sync.WaitGroup // one for each channel
	sigs     []syscall.Signal
	flushed  chan struct{}
}

// Catch catches sigs as long as the process lives: also before there is a loop, and when it has ended.
func Catch(sigs ...syscall.Signal) (*Caught, error) {
	c, err := newCaught()
	if err != nil {
		return nil, fmt.Errorf("catch signals: %w", err)
	}
	for _, sig := range sigs {
		c.receive(sig)
	}
	return c, nil
}

func newCaught() (*Caught, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &Caught{r: fds[0], w: fds[1], flushed: make(chan struct{})}, nil
}

// Watch is [Watch] for what is caught already: fn runs for what has arrived before, too. There is one watch at a time.
func (c *Caught) Watch(s *loop.Scope, fn func(syscall.Signal)) error {
	w := &watch{c, s, fn}
	if _, err := s.OnReadable(c.r, w.deliver); err != nil {
		return fmt.Errorf("watch signals: %w", err)
	}
	return nil
}

// Hold has the caught signals ignored, for the execution of another program in the place of this one, and returns those that have arrived and were not
// delivered. One that comes before that program catches them is lost, but kills it no more. release has them caught again.
//
// They can't be blocked meanwhile: Go unblocks those that kill before a program of its has a say (runtime.minitSignalMask).
func (c *Caught) Hold() (arrived []syscall.Signal, release func()) {
	before := map[syscall.Signal]sigaction{}
	for _, sig := range c.sigs {
		var old sigaction
		if sig == unix.SIGCHLD {
			continue // it kills nobody; ignored, it would have the kernel reap children
		}
		if rtSigaction(sig, &sigaction{handler: sigIgn}, &old) == nil {
			before[sig] = old
		}
	}
	c.flush()
	for sig := range set(c.pending.Swap(0)).all() {
		arrived = append(arrived, sig)
	}
	return arrived, func() {
		for sig, old := range before {
			rtSigaction(sig, &old, nil)
		}
		for _, sig := range arrived {
			c.raise(sig)
		}
	}
}

// flush returns when all that has arrived is pending, while nothing more arrives.
func (c *Caught) flush() {
	other := make(chan os.Signal, 1)
	for _, sig := range c.sigs {
		signal.Notify(other, sig)
	}
	signal.Stop(other) // it returns when os/signal has delivered
	for _, arrivals := range c.channels {
		arrivals <- nil
		<-c.flushed
	}
}

// receive starts to forward sig. It gets a channel to itself with room for one: os/signal drops what
// does not fit, and so can only drop a signal that is pending anyway.
func (c *Caught) receive(sig syscall.Signal) {
	arrivals := make(chan os.Signal, 1)
	c.channels, c.sigs = append(c.channels, arrivals), append(c.sigs, sig)
	c.forwards.Go(func() {
		for arrived := range arrivals {
			if arrived == nil {
				c.flushed <- struct{}{}
			} else {
				c.raise(sig)
			}
		}
	})
	signal.Notify(arrivals, sig)
}

// raise marks sig as pending and wakes the loop, unless there are signals pending that it has been
// woken for. So the pipe never fills up, however long the loop takes.
func (c *Caught) raise(sig syscall.Signal) {
	if c.pending.Or(uint64(only(sig))) == 0 {
		unix.Write(c.w, []byte{0})
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
func (c *Caught) close() {
	for _, arrivals := range c.channels {
		signal.Stop(arrivals) // nothing is sent to it from here on
		close(arrivals)
	}
	c.forwards.Wait()
	unix.Close(c.w)
	unix.Close(c.r)
}
