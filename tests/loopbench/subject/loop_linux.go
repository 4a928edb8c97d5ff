package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/loop/task"
)

var onLoop = map[string]measure{
	"dispatch":     dispatch,
	"pass":         pass,
	"timer-new":    timerNew,
	"timer-cancel": timerCancel,
	"timer-fire":   timerFire,
	"post":         post,
	"switch":       taskSwitch,
	"memory-watch": memoryWatch,
	"memory-timer": memoryTimer,
	"memory-task":  memoryTask,
}

// timed runs l, which stops itself after n operations.
func timed(l *loop.Loop, n int) (float64, error) {
	begin := cpu()
	err := l.Run()
	return each(begin, n), err
}

// dispatch measures n descriptors that are always ready, with empty callbacks.
func dispatch(n int) (float64, error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	total := 3_000_000
	if n == 1 {
		total = 300_000
	}
	remaining := total
	for range n {
		fd, err := unix.Eventfd(1, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		if err != nil {
			return 0, err
		}
		_, err = l.Root().OnReadable(fd, func() {
			if remaining--; remaining == 0 {
				l.Stop()
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return timed(l, total)
}

// pass measures a ring of socket pairs with a byte in each: the reader of one writes to the next.
func pass(n int) (float64, error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	const total = 300_000
	remaining := total
	ring, err := newRing(n)
	if err != nil {
		return 0, err
	}
	var b [1]byte
	for i := range ring {
		from, to := ring[i][0], ring[(i+1)%n][1]
		_, err := l.Root().OnReadable(from, func() {
			if _, err := unix.Read(from, b[:]); err != nil {
				panic(err)
			}
			if _, err := unix.Write(to, b[:]); err != nil {
				panic(err)
			}
			if remaining--; remaining == 0 {
				l.Stop()
			}
		})
		if err != nil {
			return 0, err
		}
	}
	return timed(l, total)
}

func newRing(n int) ([][2]int, error) {
	ring := make([][2]int, n)
	for i := range ring {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(p[1], []byte("x"))
		}
		if err != nil {
			return nil, err
		}
		ring[i] = p
	}
	return ring, nil
}

// inTurn runs f in a turn of a loop.
func inTurn(f func(*loop.Scope) float64) (figure float64, err error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	l.Post(func() {
		figure = f(l.Root())
		l.Stop()
	})
	return figure, l.Run()
}

func idle(s *loop.Scope, n int) {
	for range n {
		s.After(far+randomBelow(window), func() {})
	}
	runtime.GC() // collects the garbage made meanwhile
}

// timerNew makes and stops timers beside n others.
func timerNew(n int) (float64, error) {
	return inTurn(func(s *loop.Scope) float64 {
		idle(s, n)
		const total = 1_000_000
		begin := cpu()
		for range total {
			s.After(far+randomBelow(window), func() {}).Stop()
		}
		return each(begin, total)
	})
}

// timerCancel arms and stops one timer repeatedly, beside n others.
func timerCancel(n int) (float64, error) {
	return inTurn(func(s *loop.Scope) float64 {
		idle(s, n)
		t := s.After(far, func() {})
		const total = 1_000_000
		begin := cpu()
		for range total {
			t.Reset(far + randomBelow(window))
			t.Stop()
		}
		return each(begin, total)
	})
}

// timerFire fires n timers that became due, within 20 ms of each other, while a callback was busy.
func timerFire(n int) (figure float64, err error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	var begin time.Duration
	remaining := n
	l.Post(func() {
		for range n {
			l.Root().After(time.Millisecond+randomBelow(20*time.Millisecond), func() {
				if remaining--; remaining == 0 {
					figure = each(begin, n)
					l.Stop()
				}
			})
		}
		for busy := time.Now(); time.Since(busy) < 30*time.Millisecond; {
		}
		begin = cpu()
	})
	err = l.Run()
	return figure, err
}

// post posts n times from another goroutine.
func post(n int) (float64, error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	remaining := n
	f := func() {
		if remaining--; remaining == 0 {
			l.Stop()
		}
	}
	go func() {
		for range n {
			l.Post(f)
		}
	}()
	return timed(l, n)
}

// taskSwitch measures two tasks that take turns.
func taskSwitch(n int) (figure float64, err error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	err = task.Run(l, func(t *task.Task) error {
		other := t.Go(func(t *task.Task) error {
			for t.Yield() == nil {
			}
			return nil
		})
		defer other.Cancel()
		begin := cpu()
		for range n / 2 {
			if err := t.Yield(); err != nil {
				return err
			}
		}
		figure = each(begin, n)
		return nil
	})
	return figure, err
}

func memoryWatch(n int) (float64, error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	f := func() {}
	return memory(n, func() (any, error) {
		for range n {
			fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
			if err != nil {
				return nil, err
			}
			if _, err := l.Root().OnReadable(fd, f); err != nil {
				return nil, err
			}
		}
		return l, nil
	})
}

func memoryTimer(n int) (float64, error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	f := func() {}
	return memory(n, func() (any, error) {
		for range n {
			l.Root().After(far+randomBelow(window), f)
		}
		return l, nil
	})
}

// memoryTask measures tasks that sleep.
func memoryTask(n int) (figure float64, err error) {
	l, err := loop.New()
	if err != nil {
		return 0, err
	}
	err = task.Run(l, func(t *task.Task) error {
		figure, err = memory(n, func() (any, error) {
			for range n {
				t.Go(func(t *task.Task) error { return t.Sleep(far) })
			}
			return t, t.Sleep(100 * time.Millisecond) // until all sleep
		})
		t.Cancel() // and with it its children
		return err
	})
	return figure, err
}
