package logs

import (
	"math"
	"time"
)

// A pace decides how long output of a program gathers in its pipes before it is moved. A quiet
// program's line is moved at once. Moving each of the lines of a busy one alone would cost it and
// superd more than the lines themselves.
type pace struct {
	// since is the end of the last drain if output gathers, otherwise the time from which takes and
	// moved count, in nanoseconds of a monotonic clock.
	since int64
	moved int32 // bytes
	takes int16
	pause int16 // how long output gathers since then, in microseconds; 0: not at all
	// drainTakes is how many takes the present drain has made.
	drainTakes int32
}

// A program is busy if within a millisecond it has printed busyBytes, or has to be served busyTakes
// times. It is no longer busy if less than quietBytes have gathered. Where each take moves
// largeTake, gathering gains nothing.
const (
	busyBytes  = 16 << 10
	busyTakes  = 8
	quietBytes = 512
	largeTake  = 32 << 10
)

// Output gathers for about as long as it takes to fill half of the pipe: a program should not wait
// for room, and a line not for long.
const (
	minPause = 50 * time.Microsecond
	maxPause = time.Millisecond
)

// next returns how long output gathers after a drain from began to now that has moved that many
// bytes; 0: the next byte is moved at once. capacity is that of the pipe in bytes.
func (p *pace) next(began, now, moved, capacity int64) time.Duration {
	takes := p.drainTakes
	p.drainTakes = 0
	if p.pause > 0 {
		began = p.since
		if moved < quietBytes {
			*p = pace{since: now}
			return 0
		}
	} else {
		if began-p.since > int64(time.Millisecond) {
			*p = pace{since: began}
		}
		p.takes = int16(min(int32(p.takes)+takes, math.MaxInt16))
		p.moved = int32(min(int64(p.moved)+moved, math.MaxInt32))
		if p.takes < busyTakes && p.moved < busyBytes || int64(p.moved) >= int64(p.takes)*largeTake {
			return 0
		}
	}
	pause := time.Duration(float64(now-began) * float64(capacity/2) / float64(max(moved, 1)))
	pause = min(max(pause, minPause), maxPause)
	*p = pace{since: now, pause: int16(pause / time.Microsecond)}
	return pause
}

// clock returns a monotonic time in nanoseconds.
func (s *Store) clock() int64 { return int64(time.Since(s.began)) }
