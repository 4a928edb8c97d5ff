package footprint

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// hurried is how much the heap may grow between two collections of a process that is in a hurry, in percent.
const hurried = 400

// A Pacer says when Go collects garbage in a process that rests most of the time: when the heap has grown, and never because time has passed.
//
// As long as Go goes by a percentage (GOGC) it collects every two minutes, too, which wakes all that take part. Without one it goes by a limit of memory alone; so
// there is one that follows the heap: each collection has it set anew. It is no bound on what the process may use, and always above what it uses.
//
// Where the environment has GOGC or GOMEMLIMIT, that holds, and a Pacer changes nothing.
type Pacer struct {
	least     uint64 // bytes by which the heap may always grow
	collected func() // called after each collection; may be nil

	mu      sync.Mutex
	samples []metrics.Sample
	hurries int
}

// NewPacer returns a pacer that lets the heap grow between two collections by what lives in it, and by least bytes at least. collected, which may be nil, is called after
// each collection, on a goroutine that may wait. There is one in a process.
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

// paces reports whether it is this pacer that says when garbage is collected.
func (p *Pacer) paces() bool { return p.samples != nil }

// Hurry has Go spend memory rather than time, until calm is called: for the start, when others wait.
func (p *Pacer) Hurry() (calm func()) {
	if !p.paces() {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurries++; p.hurries == 1 {
		debug.SetGCPercent(hurried)
		debug.SetMemoryLimit(math.MaxInt64)
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hurries--; p.hurries == 0 {
			debug.SetGCPercent(-1)
			p.follow()
		}
	})
}

// await has the limit follow after each collection: each finds that nobody knows a mark that was made after the one before.
func (p *Pacer) await() {
	mark := new([2]*byte) // with a pointer: what has none may lie in one object with others
	runtime.AddCleanup(mark, func(p *Pacer) {
		p.mu.Lock()
		if p.hurries == 0 {
			p.follow()
		}
		p.await()
		p.mu.Unlock()
		if p.collected != nil {
			p.collected()
		}
	}, p)
}

// follow sets the limit by what is in use now. p.mu is held.
func (p *Pacer) follow() { debug.SetMemoryLimit(int64(p.read().limit(p.least))) }

// A usage is what memory is used for, in bytes.
type usage struct {
	live    uint64 // of the heap, as the last collection has found it; 0 before the first
	objects uint64 // of the heap, those that are garbage by now among them
	free    uint64 // pages that the heap may take again
	total   uint64 // all that Go has, but what it has given back
}

// limit returns the limit of memory at which Go collects when live has doubled, or has grown by least. Before the first collection all that there is lives.
//
// Source: the runtime's gcControllerState.memoryLimitHeapGoal. It leaves room for what else there is than heap, and of the rest 3 %, at least 1 MiB.
func (u usage) limit(least uint64) uint64 {
	if u.live == 0 {
		u.live = u.objects
	}
	goal := u.live + max(u.live, least)
	other := u.total - min(u.free+u.objects, u.total)
	return other + goal + max(goal/32, 1<<20)
}

// sampled are the names of what a usage is made of. Source: package runtime/metrics.
var sampled = [...]string{
	"/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/memory/classes/heap/free:bytes",
	"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
}

// read returns what is in use now. p.mu is held.
func (p *Pacer) read() usage {
	metrics.Read(p.samples)
	value := func(i int) uint64 { return p.samples[i].Value.Uint64() }
	return usage{live: value(0), objects: value(1), free: value(2), total: value(3) - value(4)}
}
