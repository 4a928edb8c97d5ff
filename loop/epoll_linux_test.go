package loop

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestIdleLoopSleeps(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	w := newReal(t)
	for range 100 {
		s := l.Root().Child()
		for _, on := range []func(int, func()) (*Watch, error){s.OnReadable, s.OnHangup, s.OnWritable} {
			if _, err := on(w.open(), func() { t.Error("a quiet descriptor was served") }); err != nil {
				t.Fatal(err)
			}
		}
		s.Every(time.Hour, func() { t.Error("a timer fired") })
	}
	l.poller.wake() // ends one wait, and no more
	// Not Post: one that comes just after a wait has ended would wake the loop once more, in vain.
	l.Root().After(200*time.Millisecond, l.Stop) // the time in which nothing must happen
	if err := l.Run(); err != nil {
		t.Error(err)
	}
	if n := l.Turns(); n != 2 {
		t.Errorf("%d turns, want 2: the wake-up and the timer", n)
	}
}

// TestPostWakesOnce posts a burst to a loop that is asleep: the eventfd counts the writes.
func TestPostWakesOnce(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	e := l.poller.(*epoll)
	l.deadline() // as before a wait
	for range 1000 {
		l.Post(func() {})
	}
	var b [8]byte
	if _, err := unix.Read(e.eventFD, b[:]); err != nil || b[0]+b[7] != 1 {
		t.Errorf("read eventfd: %v, %v; want one write", b, err)
	}
	ran := false
	l.Post(func() { ran = true; l.Stop() })
	if err := l.Run(); err != nil || !ran {
		t.Errorf("Run() = %v, posted work ran: %v", err, ran)
	}
}

func TestSignalsDoNotEndTheWait(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (*Loop, world){
		"epoll": startEpoll, "milliseconds": startMilliseconds,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := start(t)
			const d = 100 * time.Millisecond
			thread := make(chan int, 1)
			ended := make(chan error)
			begin := l.Now()
			l.Post(func() { thread <- unix.Gettid() })
			l.Root().After(d, func() {
				if l.Turns() != 2 {
					t.Errorf("turn %d, want the second, after that of the posted work", l.Turns())
				}
				if late := l.Now() - begin - d; late < 0 || late > 10*time.Second {
					t.Errorf("the timer was %v late", late)
				}
				l.Stop()
			})
			go func() {
				runtime.LockOSThread()
				ended <- l.Run()
			}()
			tid := <-thread
			for {
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
					return
				default:
					// The runtime's own signal, which it handles at any time.
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
					runtime.Gosched()
				}
			}
		})
	}
}

// TestLateEventOfASharedFile closes a watched descriptor whose file is open elsewhere, as in a
// child before its exec. Epoll continues to report it under the old number.
func TestLateEventOfASharedFile(t *testing.T) {
	l, w := startEpoll(t)
	r := &rig{t, l, w}
	old := r.open()
	keep, err := unix.Dup(old)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(keep)
	r.must(r.Root().OnReadable(old, func() { t.Error("the watch of a closed descriptor was called") }))
	oldPeer := w.(*real).peers[old]
	if err := unix.Close(old); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(oldPeer)
	delete(w.(*real).peers, old)

	fd := r.open()
	if fd != old {
		t.Fatalf("the new descriptor is %d, want %d", fd, old)
	}
	calls := 0
	r.must(r.Root().OnReadable(fd, func() { calls++; r.empty(fd) }))
	if _, err := unix.Write(oldPeer, []byte("x")); err != nil {
		t.Fatal(err)
	}
	r.Post(func() {
		if calls != 0 {
			t.Error("the new descriptor got an event of the old one")
		}
		r.fill(fd)
		r.stopAfter(2)
	})
	r.run()
	if calls != 1 {
		t.Errorf("the new descriptor was served %d times, want once", calls)
	}
}

func TestWatchRefusesARegularFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, _ := startEpoll(t)
	_, err = l.Root().OnReadable(int(f.Fd()), func() {})
	if !errors.Is(err, unix.EPERM) || !strings.HasPrefix(err.Error(), "watch descriptor ") {
		t.Errorf("OnReadable(regular file): %v, want watch descriptor N: %v", err, unix.EPERM)
	}
}

func TestRunClosesItsDescriptors(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	e := l.poller.(*epoll)
	for _, fd := range []int{e.fd, e.eventFD} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d has flags %#x, %v; want close-on-exec", fd, flags, err)
		}
	}
	l.Stop()
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int{e.fd, e.eventFD} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("descriptor %d is open after Run (%v)", fd, err)
		}
	}

	w := newReal(t)
	fd := w.open() // has one of the loop's former numbers
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
		t.Errorf("Run closed descriptor %d, which is not its own any more", fd)
	}
}

// TestErrorOfAPipe closes the read end of a pipe: for the write end that is EPOLLERR alone.
func TestErrorOfAPipe(t *testing.T) {
	l, w := startEpoll(t)
	r := &rig{t, l, w}
	fd := r.open()
	peer := w.(*real).peers[fd]
	r.must(r.Root().OnHangup(peer, r.Stop))
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	delete(w.(*real).peers, fd)
	r.Root().Defer(func() { unix.Close(peer) })
	r.run()
}

func TestMilliseconds(t *testing.T) {
	tests := []struct {
		timeout time.Duration
		want    int
	}{
		{-1, -1},
		{0, 0},
		{1, 1},
		{time.Millisecond, 1},
		{time.Millisecond + 1, 2},
		{never, math.MaxInt32},
	}
	for _, tt := range tests {
		if got := milliseconds(tt.timeout); got != tt.want {
			t.Errorf("milliseconds(%v) = %d, want %d", tt.timeout, got, tt.want)
		}
	}
}

func TestClockIsMonotonic(t *testing.T) {
	l, _ := startEpoll(t)
	var before, after unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
	now := l.Now()
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &after)
	// New read the two clocks one after the other.
	const slack = time.Second
	if now < time.Duration(before.Nano())-slack || now > time.Duration(after.Nano())+slack {
		t.Errorf("Now() = %v, want CLOCK_MONOTONIC, %v", now, time.Duration(before.Nano()))
	}
}
