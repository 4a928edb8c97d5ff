package loop

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func benchLoop(b *testing.B) *Loop {
	l, err := New()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		l.Stop()
		_ = l.Run()
	})
	return l
}

func benchTurn(b *testing.B, l *Loop) {
	if err := l.turn(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkDispatch measures a turn in which n descriptors are ready.
func BenchmarkDispatch(b *testing.B) {
	for _, n := range []int{1, maxEvents} {
		b.Run(fmt.Sprint("ready=", n), func(b *testing.B) {
			l, w := benchLoop(b), newReal(b)
			calls := 0
			for range n {
				fd := w.open()
				w.fill(fd)
				if _, err := l.Root().OnReadable(fd, func() { calls++ }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				benchTurn(b, l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(calls), "ns/event")
		})
	}
}

// BenchmarkTimerAddStop arms and stops a timer beside n others.
func BenchmarkTimerAddStop(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("others=", n), func(b *testing.B) {
			s := NewVirtual(1).Root()
			rng := rand.New(rand.NewPCG(1, 1))
			for range n {
				s.After(time.Duration(rng.Int64N(int64(time.Hour))), func() {})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.After(time.Duration(rng.Int64N(int64(time.Hour))), func() {}).Stop()
			}
		})
	}
}

// BenchmarkTimerReset sets and stops one timer beside n others.
func BenchmarkTimerReset(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("others=", n), func(b *testing.B) {
			s := NewVirtual(1).Root()
			rng := rand.New(rand.NewPCG(1, 1))
			for range n {
				s.After(time.Duration(rng.Int64N(int64(time.Hour))), func() {})
			}
			t := s.After(time.Hour, func() {})
			b.ReportAllocs()
			for b.Loop() {
				t.Reset(time.Duration(rng.Int64N(int64(time.Hour))))
				t.Stop()
			}
		})
	}
}

// BenchmarkTimerFire fires one of n interval timers.
func BenchmarkTimerFire(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("timers=", n), func(b *testing.B) {
			v := NewVirtual(1)
			rng := rand.New(rand.NewPCG(1, 1))
			for range n {
				v.Root().Every(time.Hour+time.Duration(rng.Int64N(int64(time.Hour))), func() {})
			}
			b.ReportAllocs()
			for b.Loop() {
				v.Step()
			}
		})
	}
}

// BenchmarkPost posts from a goroutine to a loop that runs on another.
func BenchmarkPost(b *testing.B) {
	l := benchLoop(b)
	ended := make(chan error)
	go func() { ended <- l.Run() }()
	f := func() {}
	b.ReportAllocs()
	for b.Loop() {
		l.Post(f)
	}
	l.Post(l.Stop)
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPostRoundTrip waits for each post, so that each finds the loop asleep.
func BenchmarkPostRoundTrip(b *testing.B) {
	l := benchLoop(b)
	ended := make(chan error)
	go func() { ended <- l.Run() }()
	done := make(chan struct{})
	f := func() { done <- struct{}{} }
	b.ReportAllocs()
	for b.Loop() {
		l.Post(f)
		<-done
	}
	l.Post(l.Stop)
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// heapGrowth returns by how many bytes the heap grows for each of the n things that f makes.
func heapGrowth(n int, f func()) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
}

// TestMemory measures the memory of an idle timer and of an idle watch, with its share of the
// tables, but without the callback.
func TestMemory(t *testing.T) {
	const timers, watches = 100_000, 500
	f := func() {}
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	w := newReal(t)
	fd := w.open()
	dups := make([]int, watches)
	for i := range dups {
		if dups[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(dups[i])
	}

	perTimer := heapGrowth(timers, func() {
		for range timers {
			l.Root().After(time.Hour, f)
		}
	})
	perWatch := heapGrowth(watches, func() {
		for _, fd := range dups {
			if _, err := l.Root().OnReadable(fd, f); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%.0f bytes a timer, %.0f bytes a watch", perTimer, perWatch)
	if perTimer >= 128 {
		t.Errorf("an idle timer takes %.0f bytes, want less than 128", perTimer)
	}
	if perWatch >= 256 {
		t.Errorf("an idle watch takes %.0f bytes, want less than 256", perWatch)
	}
	l.Stop()
	if err := l.Run(); err != nil {
		t.Error(err)
	}
}
