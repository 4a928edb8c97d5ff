package task

import (
	"runtime"
	"testing"
	"time"

	"superd/loop"
)

// BenchmarkSwitch is a switch from one task to another, of two that take turns.
func BenchmarkSwitch(b *testing.B) {
	v := loop.NewVirtual(1)
	b.ReportAllocs()
	err := Run(v.Loop, func(t *Task) error {
		other := t.Go(func(t *Task) error {
			for t.Yield() == nil {
			}
			return nil
		})
		defer other.Cancel()
		for i := 0; b.Loop(); i++ {
			if err := t.Yield(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/switch")
}

// BenchmarkChannel is the same hand-over between goroutines, for comparison.
func BenchmarkChannel(b *testing.B) {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	for b.Loop() {
		there <- struct{}{}
		<-back
	}
	close(there)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/switch")
}

// TestMemory measures an idle task of each kind: its structures, its stack, and what it has armed.
func TestMemory(t *testing.T) {
	const n = 100_000
	kinds := map[string]func(*Task) error{
		"asleep": func(t *Task) error { return t.Sleep(time.Hour) },
		"awaits": func(t *Task) error {
			_, err := new(Future[int]).Await(t)
			return err
		},
		"timeout": func(t *Task) error {
			return t.Timeout(time.Hour, func() error { return t.Sleep(2 * time.Hour) })
		},
	}
	for name, f := range kinds {
		t.Run(name, func(t *testing.T) {
			v := loop.NewVirtual(1)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := v.Root().Child()
			for range n {
				Go(s, f)
			}
			for range n/batch + 1 {
				v.Step()
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			stack := float64(after.StackInuse-before.StackInuse) / n
			heap := float64(after.HeapInuse-before.HeapInuse) / n
			t.Logf("%.0f bytes: %.0f of stack, %.0f of heap", stack+heap, stack, heap)
			s.Close()
		})
	}
}
