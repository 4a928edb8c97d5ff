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

// bringUp has n goroutines wait in the kernel at the same time.
func bringUp(n int) {
	var came, left sync.WaitGroup
	g := new(gate)
	came.Add(n)
	for range n {
		left.Go(func() {
			came.Done()
			g.wait()
		})
	}
	came.Wait()
	g.open()
	left.Wait()
}
