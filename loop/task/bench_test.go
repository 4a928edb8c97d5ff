package task

import (
	"testing"

	"superd/loop"
)

// BenchmarkSwitch measures a switch from one task to another, of two that take turns.
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

// BenchmarkChannel measures the same hand-over between goroutines, for comparison.
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

// BenchmarkAwait measures the same with futures: each task resolves that of the other and waits for
// its own.
func BenchmarkAwait(b *testing.B) {
	v := loop.NewVirtual(1)
	var there, back Future[int]
	b.ReportAllocs()
	err := Run(v.Loop, func(t *Task) error {
		other := t.Go(func(t *Task) error {
			for {
				if _, err := there.Await(t); err != nil {
					return err
				}
				there = Future[int]{}
				back.Resolve(1)
			}
		})
		defer other.Cancel()
		for b.Loop() {
			there.Resolve(1)
			if _, err := back.Await(t); err != nil {
				return err
			}
			back = Future[int]{}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/switch")
}

// BenchmarkGo measures the whole life of a task that does nothing.
func BenchmarkGo(b *testing.B) {
	v := loop.NewVirtual(1)
	f := func(*Task) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		Go(v.Root(), f)
		v.Step()
	}
}

// BenchmarkSleep measures a task that sleeps repeatedly, each time for a turn of the loop.
func BenchmarkSleep(b *testing.B) {
	v := loop.NewVirtual(1)
	b.ReportAllocs()
	err := Run(v.Loop, func(t *Task) error {
		for b.Loop() {
			if err := t.Sleep(1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}
