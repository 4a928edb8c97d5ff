package keeper

import (
	"os"
	"runtime"
	"time"

	"superd/footprint"
)

// StaySmall has Go spend time rather than memory.
func StaySmall() {
	runtime.GOMAXPROCS(1)
	occupyPoller()
}

// occupyPoller has a thread wait in Go's own epoll, for what never comes: where none does, the runtime's monitor wakes up each minute to look there.
func occupyPoller() {
	r, w, err := os.Pipe()
	if err != nil {
		return // it costs no more than that
	}
	go func() {
		r.Read(make([]byte, 1))
		runtime.KeepAlive(w)
	}()
}

// smallPause is how long a supervisor that is ready may have something to tell.
const smallPause = time.Second

// growth is by how many bytes the keeper's heap may grow between two collections: the start of a thousand programs takes a third of that.
const growth = 1 << 20

// becomeSmallSoon has the keeper become small once it has come to rest. Its heap is left as it is: a first collection makes lists of the runtime's for what it
// has found, which take more than the garbage does that the keeper has made by then. One that is due later, as after the start of thousands, reads much of the
// program's constants: so the program's pages are given back after each.
func (k *Keeper) becomeSmallSoon() {
	k.scope.After(smallPause, func() {
		if k.pacer == nil {
			k.pacer = footprint.NewPacer(growth, footprint.ReleaseProgram)
		}
		go footprint.ReleaseProgram() // it takes a while
	})
}
