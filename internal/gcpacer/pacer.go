package gcpacer

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// boostPercent is the heap growth, in percent, between two collections during a boost.
const boostPercent = 400

// A Pacer controls when Go collects garbage in a mostly idle process: when the heap has grown, and
// never because time has passed.
//
// With a percentage (GOGC) Go also collects every two minutes, which wakes an idle process. Without
// it only a memory limit triggers collections, so the Pacer sets a limit that follows the heap,
// anew after each collection. It does not bound memory usage: it is always above it.
//
// If the environment has GOGC or GOMEMLIMIT, that applies, and a Pacer changes nothing.
type Pacer struct {
	least     uint64 // bytes by which the heap may always grow
	collected func() // called after each collection; may be nil

	mu      sync.Mutex
	samples []metrics.Sample
	boosts  int
}

// NewPacer returns a pacer that lets the heap grow by its live size between two collections, and at
// least by least bytes. It calls collected, if not nil, after each collection on a goroutine that
// may block. A process has at most one Pacer.
func NewPacer(least int, collected func()) *Pacer {
	p := &Pacer{least: uint64(least), collected: collected}
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return p
	}
	for _, name := range sampled {
		p.samples = append(p.samples, metrics.Sample{Name: name})
	}
	debug.SetGCPercent(-1)
	p.follow()
	p.await()
	return p
}

// enabled reports whether this pacer controls garbage collection.
func (p *Pacer) enabled() bool { return p.samples != nil }

// Boost makes Go trade memory for time until end is called, as during the start.
func (p *Pacer) Boost() (end func()) {
	if !p.enabled() {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts++; p.boosts == 1 {
		debug.SetGCPercent(boostPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.boosts--; p.boosts == 0 {
			debug.SetGCPercent(-1)
			p.follow()
		}
	})
}

// await updates the limit after each collection. Each collection finds an unreachable object that
// was allocated after the previous one.
func (p *Pacer) await() {
	sentinel := new([2]*byte) // has a pointer: objects without one may share an allocation
	runtime.AddCleanup(sentinel, func(p *Pacer) {
		p.mu.Lock()
		if p.boosts == 0 {
			p.follow()
		}
		p.await()
		p.mu.Unlock()
		if p.collected != nil {
			p.collected()
		}
	}, p)
}

// follow sets the limit from the current usage. p.mu is held.
func (p *Pacer) follow() { debug.SetMemoryLimit(int64(p.read().limit(p.least))) }

// A usage is the memory usage by purpose, in bytes.
type usage struct {
	live    uint64 // live heap at the last collection; 0 before the first
	objects uint64 // heap objects, with those that are garbage by now
	free    uint64 // unused heap pages that the heap may reuse
	total   uint64 // all memory of Go, except what it has returned
}

// limit returns the memory limit at which Go collects when live has doubled, or has grown by least.
// Before the first collection all objects count as live.
//
// Source: the runtime's gcControllerState.memoryLimitHeapGoal. It subtracts memory other than the
// heap, and then 3 % of the rest, at least 1 MiB.
func (u usage) limit(least uint64) uint64 {
	if u.live == 0 {
		u.live = u.objects
	}
	goal := u.live + max(u.live, least)
	other := u.total - min(u.free+u.objects, u.total)
	return other + goal + max(goal/32, 1<<20)
}

// sampled are the metrics for a usage. Source: package runtime/metrics.
var sampled = [...]string{
	"/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes",
	"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
}

// read returns the current usage. p.mu is held.
func (p *Pacer) read() usage {
	metrics.Read(p.samples)
	value := func(i int) uint64 { return p.samples[i].Value.Uint64() }
	return usage{live: value(0), objects: value(1), free: value(2), total: value(3) - value(4)}
}
