//go:build !race

package task

import (
	"runtime"
	"testing"
	"time"

	"superd/loop"
)

// TestMemory measures idle tasks: their structures, their stacks, and the loop's timers for them.
func TestMemory(t *testing.T) {
	const n = 25_000
	v := loop.NewVirtual(1)
	defer v.Root().Close()
	kinds := []struct {
		name string
		f    func(*Task) error
	}{
		// The runtime gives a new goroutine a stack of the recent average size: these set the
		// average.
		{"the first", func(t *Task) error { return t.Sleep(time.Hour) }},
		{"asleep", func(t *Task) error { return t.Sleep(time.Hour) }},
		{"that awaits a future", func(t *Task) error {
			_, err := new(Future[int]).Await(t)
			return err
		}},
		{"asleep with a timeout", func(t *Task) error {
			return t.Timeout(time.Hour, func() error { return t.Sleep(2 * time.Hour) })
		}},
		{"that waits for a descriptor", func(t *Task) error { return t.Readable(v.NewFD()) }},
	}
	for i, kind := range kinds {
		stacks, heap := memory()
		for range n {
			Go(v.Root(), kind.f)
		}
		for range n/batch + 1 {
			v.Step()
		}
		stacksAfter, heapAfter := memory()
		stack, rest := (stacksAfter-stacks)/n, (heapAfter-heap)/n
		t.Logf("a task %s: %d bytes, %d of them stack", kind.name, stack+rest, stack)
		if i > 0 && stack+rest >= 4096 {
			t.Errorf("an idle task %s takes %d bytes, want less than 4096", kind.name, stack+rest)
		}
	}
}

func memory() (stacks, heap int) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse), int(m.HeapInuse)
}
