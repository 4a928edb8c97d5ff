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
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// A watch has a function called for what is caught.
type watch struct {
	*Caught
	scope *loop.Scope
	fn    func(syscall.Signal)
}

// A Caught is signals that don't take their default action, and wait for who watches them.
//
// This is the self-pipe trick: one byte in a pipe wakes the loop, and which signals there are stands in a set beside it.
type Caught struct {
	r, w int // the pipe, neither end ever blocks

	pending  atomic.Uint64 // a set
	channels []chan os.Signal
	sigs     []syscall.Signal
	flushed  chan struct{}
	muted    *sigaction // how SIGCHLD is caught otherwise; nil: it is
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

// Watch has fn run on the loop when a signal has arrived, also for what has arrived before, until s is closed. A burst coalesces:
// in one turn fn runs once for each distinct signal that is pending, in ascending order of numbers, and no distinct signal is lost. fn may close s.
// There is one watch at a time.
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

// Mute has no further SIGCHLD arrive until [Caught.Unmute]. It is for who looks for ended children a while after the first one: so long no thread is
// interrupted for each of the others. They stay zombies, as the default action is none. Both are for one goroutine.
func (c *Caught) Mute() {
	var caught sigaction
	if c.muted == nil && rtSigaction(unix.SIGCHLD, &sigaction{handler: sigDfl}, &caught) == nil {
		c.muted = &caught
	}
}

// Unmute ends what Mute has begun, if it has. It is to be called before children are looked for.
func (c *Caught) Unmute() {
	if c.muted != nil && rtSigaction(unix.SIGCHLD, c.muted, nil) == nil {
		c.muted = nil
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
	go func() {
		for arrived := range arrivals {
			if arrived == nil {
				c.flushed <- struct{}{}
			} else {
				c.raise(sig)
			}
		}
	}()
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
