package procs

import (
	"slices"
	"sync"
	"testing"
)

// Whoever wants to know of a crowd is told once that there is one, and once that nobody waits any more.
func TestStartQueueTellsOfACrowd(t *testing.T) {
	for starts, want := range map[int][]bool{crowd: nil, 10 * crowd: {true, false}} {
		var told []bool
		q := &startQueue{crowded: func(many bool) { told = append(told, many) }}
		var all sync.WaitGroup
		all.Add(starts)
		q.mu.Lock() // nobody takes one before all are there
		for range starts {
			q.waiting = append(q.waiting, func(*seat) { all.Done() })
		}
		q.fill()
		q.mu.Unlock()
		all.Wait()
		q.mu.Lock()
		if !slices.Equal(told, want) {
			t.Errorf("%d starts: told %v, want %v", starts, told, want)
		}
		q.mu.Unlock()
	}
}
