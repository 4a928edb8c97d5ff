// Package threads makes superd independent of getting more threads from the kernel.
//
// Go creates a thread when a goroutine can run while others block in the kernel, and ends the
// process if it gets none. So a limit on processes (RLIMIT_NPROC, pids.max) that superd's programs
// have used up would end superd. But Go keeps every thread it has created. So superd creates in
// advance as many threads as can block in the kernel at the same time: each package with blocking
// work limits it, and exports the limit as its constant Threads.
package threads

import (
	"fmt"
	"runtime"
	"sync"
)

// spare is for uncounted system calls, which hardly block but may keep a thread busy for a moment.
const spare = 4

// Reserve creates threads for n goroutines that block in the kernel, beside those that run. It
// returns when the threads exist; they stay.
//
// It takes at most half of what a limit on processes leaves, since programs need the rest. Then the
// error says what superd lacks.
func Reserve(n int) error {
	n += spare + runtime.GOMAXPROCS(0)
	r := roomHere()
	most := n
	if r.processes < 2*n {
		most = r.processes / 2
	}
	blockGoroutines(most)
	if most < n {
		return fmt.Errorf("start threads: %s leaves %d processes: superd has %d of the %d threads it may need, and may crash without the others",
			r.limit, r.processes, most, n)
	}
	return nil
}

// blockGoroutines locks n goroutines to a thread each at the same time, and returns when they have
// ended.
func blockGoroutines(n int) {
	end := make(chan struct{})
	var locked, ended sync.WaitGroup
	locked.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			locked.Done()
			<-end
		})
	}
	locked.Wait()
	close(end)
	ended.Wait()
}
