package keeper

import (
	"runtime"
	"runtime/debug"
	"time"

	"superd/footprint"
)

// StaySmall has Go spend time rather than memory. It comes first of all.
func StaySmall() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(10)
}

// smallPause is how long a supervisor that is ready may have something to tell.
const smallPause = time.Second

// becomeSmallSoon has the keeper become small once it has come to rest.
func (k *Keeper) becomeSmallSoon() {
	k.scope.After(smallPause, func() { go footprint.Release() }) // it takes a while
}
