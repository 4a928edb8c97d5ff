package keeper

import (
	"os"
	"runtime"
	"time"

	"superd/internal/gcpacer"
)

// BlockPoller blocks a thread in Go's own epoll forever. Without one the runtime's monitor would
// wake up each minute to poll.
func BlockPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return // then the monitor wakes up each minute
	}
	go func() {
		r.Read(make([]byte, 1))
		runtime.KeepAlive(w)
	}()
}

// reduceDelay is the time in which a ready supervisor may still send messages of its start.
const reduceDelay = time.Second

// growth is how many bytes the keeper's heap may grow between two collections. The runtime counts
// the free space that its processors have in reserve, 1 MiB, and the start of a thousand programs
// takes a third of one.
const growth = 2 << 20

// reduceMemorySoon reduces the keeper's memory once it is idle. It does not collect garbage: a
// first collection makes the runtime allocate lists that take more than the garbage so far. A later
// collection, such as after the start of thousands, reads many constants of the program, so the
// program's pages are released after each.
func (k *Keeper) reduceMemorySoon() {
	k.scope.After(reduceDelay, func() {
		if k.pacer == nil {
			k.pacer = gcpacer.NewPacer(growth, gcpacer.ReleaseProgram)
		}
		go gcpacer.ReleaseProgram() // takes a while
	})
}
