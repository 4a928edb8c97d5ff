package keeper

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"superd/footprint"
)

// StaySmall has Go spend time rather than memory. It comes first of all.
func StaySmall() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(10)
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

// becomeSmallSoon has the keeper become small once it has come to rest.
func (k *Keeper) becomeSmallSoon() {
	k.scope.After(smallPause, func() { go footprint.Release() }) // it takes a while
}
