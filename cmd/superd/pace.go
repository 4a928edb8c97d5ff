//go:build linux

package main

import (
	"time"

	"superd/internal/gcpacer"
	"superd/loop"
)

// heapGrowth is the least growth of the heap between two collections at rest, in bytes. Go's own
// minimum is the same.
const heapGrowth = 4 << 20

// restPause is how long after a burst of work more of it may follow.
const restPause = time.Second

// A pace lets superd spend memory rather than time during bursts of work, and returns the memory
// afterwards. It belongs to the loop.
type pace struct {
	scope   *loop.Scope
	hasten  func() (calm func()) // [gcpacer.Pacer.Hurry]
	release func(calm func())    // returns memory on another goroutine, then calls calm

	calm    func()      // ends the hurry; nil: no hurry
	crowded bool        // many starts wait
	resting *loop.Timer // until memory is returned; nil: never set so far
}

// newPace returns the pace of a superd that has been in a hurry since its start; calm ends that.
func newPace(scope *loop.Scope, pacer *gcpacer.Pacer, calm func()) *pace {
	return &pace{scope: scope, calm: calm, hasten: pacer.Hurry, release: func(calm func()) { go gcpacer.Release(calm) }}
}

// crowd is called with true when many starts begin to wait, and with false when none waits.
func (p *pace) crowd(many bool) {
	if p.crowded = many; many {
		p.hurry()
	} else {
		p.rest()
	}
}

// hurry starts to spend memory rather than time, until rest.
func (p *pace) hurry() {
	p.resting.Stop()
	if p.calm == nil {
		p.calm = p.hasten()
	}
}

// rest returns the memory of a burst of work after restPause, unless many starts wait.
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
