package gcpacer

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestLimit: with the limit, the runtime's goal is the intended one, whatever other memory there
// is.
func TestLimit(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name  string
		in    usage
		least uint64
		goal  uint64
	}{
		{"before the first collection", usage{0, 2 * mib, mib, 9 * mib}, 4 * mib, 6 * mib},
		{"a small heap", usage{mib, 3 * mib, mib, 9 * mib}, 4 * mib, 5 * mib},
		{"a large heap", usage{300 * mib, 500 * mib, 50 * mib, 600 * mib}, 4 * mib, 600 * mib},
		{"no memory but the heap", usage{5 * mib, 5 * mib, 0, 5 * mib}, 4 * mib, 10 * mib},
		{"figures that don't fit together", usage{mib, 4 * mib, 6 * mib, 9 * mib}, 4 * mib, 5 * mib},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := tt.in.limit(tt.least)
			// As in gcControllerState.memoryLimitHeapGoal.
			goal := limit - (tt.in.total - min(tt.in.free+tt.in.objects, tt.in.total))
			goal -= max(goal/100*3, 1<<20)
			if goal < tt.goal-tt.goal/20 || goal > tt.goal+tt.goal/20 {
				t.Errorf("limit %d gives a goal of %d, want %d", limit, goal, tt.goal)
			}
			if limit < tt.in.total-min(tt.in.free, tt.in.total) {
				t.Errorf("limit %d is below what is used", limit)
			}
		})
	}
}

// paced returns a pacer whose settings end with the test.
func paced(t *testing.T, least int) *Pacer { return pacedReporting(t, least, nil) }

// pacedReporting is paced for a pacer that reports collections.
func pacedReporting(t *testing.T, least int, collected func()) *Pacer {
	t.Helper()
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	runtime.GC()
	p := NewPacer(least, collected)
	t.Cleanup(func() {
		p.mu.Lock()
		p.boosts++ // it leaves the limit alone from here on
		p.mu.Unlock()
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	return p
}

// collections returns the number of collections, other than requested ones.
func collections() uint32 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.NumGC - m.NumForcedGC
}

var sink []byte

// litter makes that many bytes of garbage.
func litter(bytes int) {
	for range bytes >> 10 {
		sink = make([]byte, 1<<10)
	}
}

// TestCollectsWhenGrown: garbage is collected whenever the heap has grown by that much, and the
// limit that follows the heap causes no useless collection.
func TestCollectsWhenGrown(t *testing.T) {
	const least, litters = 4 << 20, 64
	paced(t, least)
	before := collections()
	for range litters {
		litter(least / 4)
		debug.SetGCPercent(-1) // it is that already, but this waits for a collection under way
	}
	// A collection begins somewhat earlier than at its goal
	if n := collections() - before; n < litters/4/4 || n > litters {
		t.Errorf("%d collections of %d times %d bytes of garbage, want about %d", n, litters, least/4, litters/4)
	}
}

// TestReportsCollections: each collection is reported, also the second one, so that work after
// collections needs no timer.
func TestReportsCollections(t *testing.T) {
	signalled := make(chan struct{}, 1)
	pacedReporting(t, 4<<20, func() {
		select {
		case signalled <- struct{}{}:
		default: // the test is over
		}
	})
	for range 2 {
		runtime.GC()
		<-signalled
	}
}

// TestNoneAtRest: without garbage there is no collection, not even after a time: a percentage below
// 0 ensures that.
func TestNoneAtRest(t *testing.T) {
	paced(t, 4<<20)
	if percent := debug.SetGCPercent(-1); percent != -1 {
		t.Errorf("it goes by %d percent", percent)
	}
	before := collections()
	litter(1 << 20)
	if n := collections() - before; n != 0 {
		t.Errorf("%d collections of a quarter of the least growth", n)
	}
}

// TestLimitFollowsLiveHeap: live memory counts: a heap that has become large may grow by as much,
// and one that has become small does not keep a large limit.
func TestLimitFollowsLiveHeap(t *testing.T) {
	paced(t, 1<<20)
	live := make([][]byte, 64)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	waitFor := func(what string, ok func(limit int64) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; {
			runtime.GC()
			limit := debug.SetMemoryLimit(-1)
			if ok(limit) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("limit %d: %s", limit, what)
			}
			runtime.Gosched()
		}
	}
	waitFor("64 MiB live, as much again is to be allowed", func(limit int64) bool { return limit > 128<<20 })
	runtime.KeepAlive(live) // and no longer
	waitFor("next to nothing lives", func(limit int64) bool { return limit < 64<<20 })
}

// TestBoost: a boosted process follows a percentage, and not the limit; the end of the last boost
// ends that.
func TestBoost(t *testing.T) {
	p := paced(t, 4<<20)
	first, second := p.Boost(), p.Boost()
	first()
	first()
	if percent := debug.SetGCPercent(boostPercent); percent != boostPercent {
		t.Errorf("while boosted it follows %d percent", percent)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("while boosted there is a limit of %d", limit)
	}
	second()
	if percent := debug.SetGCPercent(-1); percent != -1 {
		t.Errorf("after the boost it follows %d percent", percent)
	}
	if limit := debug.SetMemoryLimit(-1); limit > 1<<30 {
		t.Errorf("after the boost the limit is %d", limit)
	}
}

// TestEnvironmentOverrides: GOGC and GOMEMLIMIT of the environment take precedence.
func TestEnvironmentOverrides(t *testing.T) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(1<<40)
			defer debug.SetGCPercent(percent)
			defer debug.SetMemoryLimit(limit)
			t.Setenv(name, "100")
			p := NewPacer(1, nil)
			p.Boost()()
			if now := debug.SetMemoryLimit(1 << 40); now != 1<<40 {
				t.Errorf("the limit is %d", now)
			}
			if now := debug.SetGCPercent(77); now != 77 {
				t.Errorf("the percentage is %d", now)
			}
		})
	}
}
