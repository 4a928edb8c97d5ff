package logs

import (
	"testing"
	"time"
)

// TestPace: a quiet program's output is moved at once, that of a busy one gathers until about half
// of its pipe is full.
func TestPace(t *testing.T) {
	const capacity = 64 << 10
	type drain struct {
		after, spent time.Duration // since the last one ended
		moved        int64
		takes        int32
		want         time.Duration
	}
	const µs = time.Microsecond
	lines := func(n int, d drain) (all []drain) {
		for range n {
			all = append(all, d)
		}
		return all
	}
	for _, test := range []struct {
		name   string
		drains []drain
	}{
		{"one line", []drain{{time.Hour, 10 * µs, 100, 1, 0}}},
		{"a line each 0.2 ms", lines(50, drain{200 * µs, 10 * µs, 100, 1, 0})},
		{"nothing", lines(5, drain{200 * µs, 10 * µs, 0, 0, 0})},
		{"a burst of lines", append(lines(busyTakes-1, drain{10 * µs, 10 * µs, 100, 1, 0}),
			drain{10 * µs, 10 * µs, 100, 1, maxPause})},
		{"large writes", lines(50, drain{10 * µs, 10 * µs, capacity, 1, 0})},
		{"one that fills its pipe", []drain{
			{time.Hour, 100 * µs, busyBytes, 4, 200 * µs},
			{200 * µs, 0, capacity, 1, 100 * µs},
			{100 * µs, 0, capacity / 4, 1, 200 * µs},
			{200 * µs, 0, capacity / 8, 1, 800 * µs},
			{800 * µs, 0, capacity / 8, 1, maxPause},
			{maxPause, 0, 100 * capacity, 100, minPause},
		}},
		{"it is quiet again", []drain{
			{time.Hour, 100 * µs, busyBytes, 4, 200 * µs},
			{200 * µs, 0, 100, 1, 0},
			{100 * µs, 0, 100, 1, 0},
		}},
		{"it ends", []drain{
			{time.Hour, 100 * µs, busyBytes, 4, 200 * µs},
			{200 * µs, 0, 0, 0, 0},
		}},
	} {
		var p pace
		now := time.Hour
		for i, d := range test.drains {
			began := now + d.after
			now = began + d.spent
			p.drainTakes = d.takes
			if got := p.next(int64(began), int64(now), d.moved, capacity); got != d.want {
				t.Errorf("%s: after drain %d output gathers for %v, want %v", test.name, i, got, d.want)
			}
		}
	}
}
