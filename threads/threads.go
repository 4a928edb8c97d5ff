// Package threads makes superd independent of whether the kernel gives it more threads.
//
// Go makes a thread when a goroutine wants to run while others wait in the kernel, and ends the process when it gets none:
// a limit on processes (RLIMIT_NPROC, pids.max) that superd's programs have used up would end superd. But Go keeps every
// thread that it ever had. So superd brings up beforehand as many as can wait in the kernel at a time: each package that
// has blocking work bounds it and tells the bound as its Threads.
package threads

import (
	"fmt"
	"runtime"
	"sync"
)

// spare is for system calls that nobody counts, since they don't wait, but which may be in the way of others for a moment.
const spare = 4

// Reserve brings up threads for n goroutines that wait in the kernel, beside those that run. It returns when they are there, and
// they stay.
//
// Of what a limit on processes leaves, it takes one half at most: the other is for programs. Then the error says what superd lacks.
func Reserve(n int) error {
	n += spare + runtime.GOMAXPROCS(0)
	r := roomHere()
	most := n
	if r.processes < 2*n {
		most = r.processes / 2
	}
	bringUp(most)
	if most < n {
		return fmt.Errorf("bring up threads: %s leaves room for %d processes: superd has %d threads of the %d it may need, and may end when it gets no others",
			r.limit, r.processes, most, n)
	}
	return nil
}

// bringUp has n goroutines have a thread of their own at the same time. Go makes a thread for the next one as soon as one that is bound to its thread waits; where
// goroutines wait in the kernel, Go's monitor has to find that out first, 70 times.
func bringUp(n int) {
	var came, left sync.WaitGroup
	all := make(chan struct{})
	came.Add(n)
	for range n {
		left.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // else the thread would end with the goroutine
			came.Done()
			<-all
		})
	}
	came.Wait()
	close(all)
	left.Wait()
}
