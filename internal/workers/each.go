package workers

import (
	"runtime"
	"sync"
)

// Each calls f for 0 to n-1 on all processors.
func Each(n int, f func(i int)) {
	const share = 64
	workers := min(runtime.GOMAXPROCS(0), (n+share-1)/share)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				f(i)
			}
		})
	}
	all.Wait()
}
