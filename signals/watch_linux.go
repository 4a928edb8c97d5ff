// Package signals delivers the signals of this process to the event loop, and gives the process the
// clean start that a supervisor's children need: no blocked or ignored signals, and no descriptors
// passed on by accident.
//
// Dispositions belong to the process, and Go passes those that it does not handle on to children.
// So neither this package nor a program that uses it may call signal.Ignore.
package signals

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"
	"superd/loop"
)

// A watch calls a function for caught signals.
type watch struct {
	*Caught
	scope *loop.Scope
	fn    func(syscall.Signal)
}

// A Caught is a set of signals that are caught instead of taking their default action, and wait for
// a watch.
//
// It is a self-pipe: one byte in a pipe wakes the loop, and a set beside it has the signals.
type Caught struct {
	r, w int // pipe, non-blocking at both ends

	pending  atomic.Uint64 // a set
	channels []chan os.Signal
	sigs     []syscall.Signal
	flushed  chan struct{}
	masked   *disposition.Action // disposition of SIGCHLD before Mask; nil: not masked
	nohup    bool                // SIGHUP was ignored before
}

// Catch catches sigs while the process lives: also before there is a loop, and after it has ended.
func Catch(sigs ...syscall.Signal) (*Caught, error) {
	c, err := newCaught()
	if err != nil {
		return nil, fmt.Errorf("catch signals: %w", err)
	}
	if c.nohup, err = startedByNohup(); err != nil {
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

// Watch calls fn on the loop when a signal has arrived, also before the call, until s is closed.
// Bursts coalesce: in one turn fn is called once for each distinct pending signal, in ascending
// order of numbers, and no distinct signal is dropped. fn may close s. There is one watch at a
// time.
func (c *Caught) Watch(s *loop.Scope, fn func(syscall.Signal)) error {
	w := &watch{c, s, fn}
	if _, err := s.OnReadable(c.r, w.deliver); err != nil {
		return fmt.Errorf("watch signals: %w", err)
	}
	return nil
}

// Suspend ignores the caught signals while another program is executed in this process, and returns
// those that have arrived and were not delivered. A signal that arrives before that program catches
// it has no effect: it does not kill the program. resume catches them again.
//
// They can't be blocked instead: Go unblocks fatal signals before the new program runs its own code
// (runtime.minitSignalMask).
func (c *Caught) Suspend() (arrived []syscall.Signal, resume func()) {
	before := map[syscall.Signal]disposition.Action{}
	for _, sig := range c.sigs {
		if sig == unix.SIGCHLD {
			continue // not fatal; ignoring it would make the kernel reap children
		}
		if old, err := disposition.Set(sig, disposition.Ignore()); err == nil {
			before[sig] = old
		}
	}
	c.flush()
	for sig := range set(c.pending.Swap(0)).all() {
		arrived = append(arrived, sig)
	}
	return arrived, func() {
		for sig, old := range before {
			_, _ = disposition.Set(sig, old)
		}
		for _, sig := range arrived {
			c.raise(sig)
		}
	}
}

// Mask masks SIGCHLD until [Caught.Unmask]. It is for a caller that reaps children some time after
// the first SIGCHLD: no thread is interrupted for each of the others. The children stay zombies,
// since the default action is none. Call both from one goroutine only.
func (c *Caught) Mask() {
	if c.masked != nil {
		return
	}
	if caught, err := disposition.Set(unix.SIGCHLD, disposition.Default()); err == nil {
		c.masked = &caught
	}
}

// Unmask reverts Mask. Call it before the children are reaped.
func (c *Caught) Unmask() {
	if c.masked == nil {
		return
	}
	if _, err := disposition.Set(unix.SIGCHLD, *c.masked); err == nil {
		c.masked = nil
	}
}

// flush waits until all signals that have arrived are pending. No other may arrive meanwhile.
func (c *Caught) flush() {
	other := make(chan os.Signal, 1)
	for _, sig := range c.sigs {
		signal.Notify(other, sig)
	}
	signal.Stop(other) // returns when os/signal has delivered
	for _, arrivals := range c.channels {
		arrivals <- nil
		<-c.flushed
	}
}

// receive starts to forward sig. It has a channel of its own with room for one: os/signal drops
// what does not fit, and so drops only a signal that is pending anyway.
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

// raise marks sig as pending and wakes the loop, unless other signals are pending, for which it was
// woken. So the pipe never fills up, however long the loop takes.
func (c *Caught) raise(sig syscall.Signal) {
	if c.pending.Or(uint64(only(sig))) == 0 {
		unix.Write(c.w, []byte{0})
	}
}

// deliver calls fn for pending signals. It empties the pipe first: a signal that arrives meanwhile
// is delivered now, and its byte causes an extra turn without work.
func (w *watch) deliver() {
	var buf [16]byte
	unix.Read(w.r, buf[:]) // never sleeps, so it is not interrupted; called again if there is more
	for sig := range set(w.pending.Swap(0)).all() {
		if w.scope.Closed() {
			return
		}
		w.fn(sig)
	}
}
