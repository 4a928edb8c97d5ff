package follow

import (
	"sync"
	"time"

	"superd/logs/segment"
)

const (
	maxArrivals     = 1024             // times in memory for a log that a slow reader follows
	arrivalDistance = time.Millisecond // between them, at first
)

// arrivals has the times at which the bytes of a log arrived that have none in the log itself. The
// writer adds them, so that they do not depend on how fast the reader is. When there are too many,
// every second one is removed, so times become less exact as the reader falls behind.
type arrivals struct {
	mu    sync.Mutex
	log   *segment.Log // has the positions; nil: times are not recorded
	begin int64        // bytes before it have no known time
	times []arrival    // in the order of both fields
	// distance is that between the times, at least.
	distance time.Duration
}

// An arrival is when the bytes before a position came that the preceding one does not have.
type arrival struct {
	end int64
	at  time.Time
}

// start begins anew, at a position of a log.
func (a *arrivals) start(log *segment.Log, begin int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log, a.begin, a.times, a.distance = log, begin, nil, arrivalDistance
}

// add records that the log has grown to end. It ignores another log.
func (a *arrivals) add(log *segment.Log, end int64, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.begin
	if n := len(a.times); n > 0 {
		last = a.times[n-1].end
	}
	switch n := len(a.times); {
	case log != a.log || log == nil || end <= last:
	case n > 0 && now.Sub(a.times[n-1].at) < a.distance:
		a.times[n-1].end = end
	case n == maxArrivals:
		a.distance = now.Sub(a.times[0].at) / (maxArrivals / 2)
		for i := range n / 2 {
			a.times[i] = arrival{a.times[2*i+1].end, a.times[2*i].at}
		}
		a.times = append(a.times[:n/2], arrival{end, now})
	default:
		a.times = append(a.times, arrival{end, now})
	}
}

// of returns when the byte at position p came, and up to which position that is known; a zero time
// if it is not known. Positions must not decrease from call to call.
func (a *arrivals) of(p int64) (at time.Time, end int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	past := 0
	for past < len(a.times) && a.times[past].end <= p {
		past++
	}
	if past > 0 {
		a.begin = a.times[past-1].end
		if a.times = append(a.times[:0], a.times[past:]...); len(a.times) == 0 {
			a.times, a.distance = nil, arrivalDistance // a quiet program costs nothing
		}
	}
	if p < a.begin || len(a.times) == 0 {
		return time.Time{}, 0
	}
	return a.times[0].at, a.times[0].end
}
