package main

import (
	"time"

	"superd/footprint"
	"superd/loop"
)

// heapGrowth is by how many bytes the heap may always grow between two collections at rest, as much as Go itself allows.
const heapGrowth = 4 << 20

// restPause is how long superd may have more to do after a burst of work.
const restPause = time.Second

// A pace spends memory rather than time while there is much to do, and gives it back when that is over. It belongs to the loop.
type pace struct {
	scope   *loop.Scope
	hasten  func() (calm func()) // [footprint.Pacer.Hurry]
	release func(calm func())    // has memory given back, elsewhere, and is calm then

	calm    func()      // ends the hurry; nil: there is none
	crowded bool        // many starts wait
	resting *loop.Timer // until the memory is given back; nil: not yet
}

// newPace returns the pace of a superd that has been in a hurry since it began.
func newPace(scope *loop.Scope, pacer *footprint.Pacer, calm func()) *pace {
	return &pace{scope: scope, calm: calm, hasten: pacer.Hurry, release: func(calm func()) { go footprint.Release(calm) }}
}

// crowd is told when many starts begin to wait, and when none waits any more.
func (p *pace) crowd(many bool) {
	if p.crowded = many; many {
		p.hurry()
	} else {
		p.rest()
	}
}

// hurry spends memory rather than time until superd rests.
func (p *pace) hurry() {
	p.resting.Stop()
	if p.calm == nil {
		p.calm = p.hasten()
	}
}

// rest gives back the memory of a burst of work, once it is over. While there is a crowd it is not.
func (p *pace) rest() {
	switch {
	case p.crowded:
	case p.resting == nil:
		p.resting = p.scope.After(restPause, func() {
			calm := p.calm
			if p.calm = nil; calm == nil {
				calm = func() {}
			}
			p.release(calm)
		})
	default:
		p.resting.Reset(restPause)
	}
}
