package signals

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// deadline bounds each wait for an event; only a failing test ever uses it up.
const deadline = 90 * time.Second

// kinds are signals of all sorts: ones that would end us, ones without effect, and real-time ones.
var kinds = []syscall.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGTERM, unix.SIGWINCH, 40, 63}

// start runs a loop until the end of the test.
func start(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	t.Cleanup(func() {
		l.Post(l.Stop)
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	})
	return l
}

// on runs f on the loop and waits for it.
func on(t *testing.T, l *loop.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	l.Post(func() {
		defer close(done)
		f()
	})
	receive(t, done)
}

// receive takes a value from c, or fails the test.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatal("nothing came in time")
		panic("unreachable")
	}
}

// raise sends sig to this process.
func raise(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := unix.Kill(os.Getpid(), sig); err != nil {
		t.Error(err)
	}
}

// openFDs returns the open descriptors of this process and their targets.
func openFDs(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var fds []string
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fds = append(fds, e.Name()+" "+name)
		}
	}
	return fds
}

// watchIn catches signals until s is closed.
func watchIn(s *loop.Scope, fn func(syscall.Signal), sigs ...syscall.Signal) (*Caught, error) {
	c, err := Catch(sigs...)
	if err != nil {
		return nil, err
	}
	s = s.Child()
	s.Defer(c.close) // before the pipe is watched, so that it runs after the end of the watch
	if err := c.Watch(s, fn); err != nil {
		s.Close()
		return nil, err
	}
	return c, nil
}

// close ends the forwarding, then closes the pipe that it wrote to.
func (c *Caught) close() {
	for _, arrivals := range c.channels {
		signal.Stop(arrivals) // nothing is sent to it from here on
		arrivals <- nil
		<-c.flushed
		close(arrivals)
	}
	unix.Close(c.w)
	unix.Close(c.r)
}

func TestWatchDeliversEachSignal(t *testing.T) {
	l := start(t)
	got := make(chan syscall.Signal, 1)
	on(t, l, func() {
		if _, err := watchIn(l.Root(), func(sig syscall.Signal) { got <- sig }, kinds...); err != nil {
			t.Error(err)
		}
	})
	for _, sig := range kinds {
		raise(t, sig)
		if s := receive(t, got); s != sig {
			t.Errorf("got %v, want %v", s, sig)
		}
	}
}

func TestWatchCoalescesInAscendingOrder(t *testing.T) {
	l := start(t)
	var got []syscall.Signal
	on(t, l, func() {
		w, err := watchIn(l.Root(), func(sig syscall.Signal) { got = append(got, sig) })
		if err != nil {
			t.Error(err)
			return
		}
		for range 100_000 { // more than a pipe holds
			for _, sig := range []syscall.Signal{64, unix.SIGUSR1, unix.SIGHUP, unix.SIGCHLD} {
				w.raise(sig)
			}
		}
	})
	want := []syscall.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGCHLD, 64}
	for end := time.Now().Add(deadline); ; {
		var n int
		on(t, l, func() { n = len(got) })
		if n > 0 || time.Now().After(end) {
			break
		}
	}
	for range 3 { // turns in which no more may come
		on(t, l, func() {})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWatchDeliversSignalDuringCallback: a signal that comes while fn runs for the one before
// counts separately.
func TestWatchDeliversSignalDuringCallback(t *testing.T) {
	l := start(t)
	left, done := 5000, make(chan struct{})
	on(t, l, func() {
		_, err := watchIn(l.Root(), func(sig syscall.Signal) {
			if left--; left == 0 {
				close(done)
				return
			}
			raise(t, sig)
		}, unix.SIGUSR1)
		if err != nil {
			t.Error(err)
		}
	})
	raise(t, unix.SIGUSR1)
	receive(t, done)
}

func TestWatchDeliversEachSignalOfABurst(t *testing.T) {
	l := start(t)
	var seen set // belongs to the loop
	full := make(chan struct{}, 1)
	var all set
	for _, sig := range kinds {
		all |= only(sig)
	}
	on(t, l, func() {
		_, err := watchIn(l.Root(), func(sig syscall.Signal) {
			if seen |= only(sig); seen == all {
				seen = 0
				select {
				case full <- struct{}{}:
				default:
				}
			}
		}, kinds...)
		if err != nil {
			t.Error(err)
		}
	})
	for range 100 {
		// Signals of a kind may be merged, but one of each must arrive.
		for range 10 {
			for _, sig := range kinds {
				raise(t, sig)
			}
		}
		receive(t, full)
		// The rest of this round is delivered, then dropped.
		settle(t, l)
		on(t, l, func() {
			seen = 0
			select {
			case <-full:
			default:
			}
		})
	}
}

// settle waits until every earlier signal has passed os/signal and the loop.
func settle(t *testing.T, l *loop.Loop) {
	t.Helper()
	const last = syscall.Signal(maxSignal) // the kernel delivers the lowest number first
	c := make(chan os.Signal, 1)
	signal.Notify(c, last)
	raise(t, last)
	receive(t, c)
	signal.Stop(c)
	for range 3 {
		on(t, l, func() {})
	}
}

func TestWatchersOfTheSameSignal(t *testing.T) {
	l := start(t)
	first, second := make(chan syscall.Signal, 1), make(chan syscall.Signal, 1)
	var scope *loop.Scope
	on(t, l, func() {
		scope = l.Root().Child()
		if _, err := watchIn(scope, func(sig syscall.Signal) { first <- sig }, unix.SIGUSR1); err != nil {
			t.Error(err)
		}
		if _, err := watchIn(l.Root(), func(sig syscall.Signal) { second <- sig }, unix.SIGUSR1); err != nil {
			t.Error(err)
		}
	})
	raise(t, unix.SIGUSR1)
	receive(t, first)
	receive(t, second)
	on(t, l, scope.Close)
	raise(t, unix.SIGUSR1)
	receive(t, second)
	if len(first) != 0 {
		t.Error("a closed watch was called")
	}
}

func TestWatchClosedInItsCallback(t *testing.T) {
	l := start(t)
	var got []syscall.Signal
	closed := make(chan struct{})
	on(t, l, func() {
		scope := l.Root().Child()
		w, err := watchIn(scope, func(sig syscall.Signal) {
			got = append(got, sig)
			scope.Close()
			close(closed)
		})
		if err != nil {
			t.Error(err)
			return
		}
		w.raise(unix.SIGUSR1)
		w.raise(unix.SIGHUP)
	})
	receive(t, closed)
	on(t, l, func() {})
	if want := []syscall.Signal{unix.SIGHUP}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWatchClosedUnderFire(t *testing.T) {
	// Signals after the end of the watch need a listener, or they end the test.
	safety := make(chan os.Signal, 1)
	for _, sig := range kinds {
		signal.Notify(safety, sig)
	}
	defer signal.Stop(safety)
	l := start(t)
	before := openFDs(t)
	for range 50 {
		var scope *loop.Scope
		var calls int // belongs to the loop
		called := make(chan struct{})
		on(t, l, func() {
			scope = l.Root().Child()
			_, err := watchIn(scope, func(syscall.Signal) {
				if calls++; calls == len(kinds) {
					close(called)
				}
			}, kinds...)
			if err != nil {
				t.Error(err)
			}
		})
		burst := make(chan struct{})
		go func() {
			defer close(burst)
			for range 20 {
				for _, sig := range kinds {
					raise(t, sig)
				}
			}
		}()
		receive(t, called)
		var atClose int
		on(t, l, func() {
			scope.Close()
			atClose = calls
		})
		on(t, l, func() {
			if calls != atClose {
				t.Errorf("%d calls after the scope was closed", calls-atClose)
			}
		})
		receive(t, burst)
	}
	if after := openFDs(t); !slices.Equal(after, before) {
		t.Errorf("descriptors %v, before %v", after, before)
	}
}

func TestWatchInAClosedScope(t *testing.T) {
	l := start(t)
	before := openFDs(t)
	on(t, l, func() {
		scope := l.Root().Child()
		scope.Close()
		_, err := watchIn(scope, func(syscall.Signal) { t.Error("called") }, unix.SIGUSR1)
		if !errors.Is(err, loop.ErrClosed) {
			t.Errorf("Watch() in a closed scope = %v, want loop.ErrClosed", err)
		}
	})
	if after := openFDs(t); !slices.Equal(after, before) {
		t.Errorf("descriptors %v, before %v", after, before)
	}
}

func TestWatchPipeIsCloseOnExecAndNeverBlocks(t *testing.T) {
	l := start(t)
	on(t, l, func() {
		w, err := watchIn(l.Root(), func(syscall.Signal) {})
		if err != nil {
			t.Error(err)
			return
		}
		for _, fd := range []int{w.r, w.w} {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("F_GETFD = %#x, %v, want FD_CLOEXEC", flags, err)
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
				t.Errorf("F_GETFL = %#x, %v, want O_NONBLOCK", flags, err)
			}
		}
	})
}

// TestMask: a masked SIGCHLD does not arrive, others do, and it does again afterwards.
func TestMask(t *testing.T) {
	l := start(t)
	got := make(chan syscall.Signal, 8)
	var c *Caught
	on(t, l, func() {
		var err error
		if c, err = watchIn(l.Root(), func(sig syscall.Signal) { got <- sig }, unix.SIGCHLD, unix.SIGHUP); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		c.Mask()
		c.Mask() // masked already
		raise(t, unix.SIGCHLD)
		raise(t, unix.SIGHUP)
		if sig := receive(t, got); sig != unix.SIGHUP {
			t.Errorf("got %v while it was muted", sig)
		}
		c.Unmask()
		c.Unmask()
		raise(t, unix.SIGCHLD)
		if sig := receive(t, got); sig != unix.SIGCHLD {
			t.Errorf("got %v, want SIGCHLD again", sig)
		}
	}
}
