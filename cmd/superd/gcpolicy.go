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

// releaseDelay is the time from a burst of work to the release of its memory.
const releaseDelay = time.Second

// A gcPolicy makes Go collect garbage more rarely during bursts of work, and returns their memory
// afterwards. It belongs to the loop.
type gcPolicy struct {
	scope   *loop.Scope
	boost   func() (endBoost func()) // [gcpacer.Pacer.Boost]
	release func(endBoost func())    // returns memory on another goroutine, then calls endBoost

	endBoost     func()      // ends the boost; nil: no boost
	startsQueued bool        // many starts are queued
	releaseTimer *loop.Timer // until memory is returned; nil: never armed
}

// newGCPolicy returns the policy of a superd that is boosted since its start; endBoost ends that.
func newGCPolicy(scope *loop.Scope, pacer *gcpacer.Pacer, endBoost func()) *gcPolicy {
	return &gcPolicy{scope: scope, endBoost: endBoost, boost: pacer.Boost, release: func(endBoost func()) { go gcpacer.Release(endBoost) }}
}

// onStartQueue is called with true when many starts are queued, and with false when none is.
func (p *gcPolicy) onStartQueue(queued bool) {
	if p.startsQueued = queued; queued {
		p.beginBoost()
	} else {
		p.releaseLater()
	}
}

// beginBoost begins a boost, unless there is one, and cancels the release of memory.
func (p *gcPolicy) beginBoost() {
	p.releaseTimer.Stop()
	if p.endBoost == nil {
		p.endBoost = p.boost()
	}
}

// releaseLater returns memory and ends the boost after releaseDelay, unless many starts are queued.
func (p *gcPolicy) releaseLater() {
	switch {
	case p.startsQueued:
	case p.releaseTimer == nil:
		p.releaseTimer = p.scope.After(releaseDelay, func() {
			endBoost := p.endBoost
			if p.endBoost = nil; endBoost == nil {
				endBoost = func() {}
			}
			p.release(endBoost)
		})
	default:
		p.releaseTimer.Reset(releaseDelay)
	}
}
