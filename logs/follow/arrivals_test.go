package follow

import (
	"testing"
	"time"

	"superd/logs/segment"
)

func TestArrivals(t *testing.T) {
	log, other := segment.New("a", new(segment.Options)), segment.New("b", new(segment.Options))
	second := func(n float64) time.Time { return time.Unix(1_000_000, 0).Add(time.Duration(n * float64(time.Second))) }
	var a arrivals
	a.add(log, 10, second(0)) // before start
	if at, _ := a.of(5); !at.IsZero() {
		t.Errorf("a time before the start: %v", at)
	}
	a.start(log, 100)
	a.add(other, 900, second(0))
	a.add(log, 100, second(0)) // nothing came
	a.add(log, 110, second(1))
	a.add(log, 120, second(1.0001)) // at once
	a.add(log, 130, second(2))
	tests := []struct {
		position int64
		want     time.Time
		end      int64
	}{
		{99, time.Time{}, 0}, {100, second(1), 120}, {119, second(1), 120}, {120, second(2), 130}, {130, time.Time{}, 0},
	}
	for _, tt := range tests {
		if at, end := a.of(tt.position); !at.Equal(tt.want) || end != tt.end {
			t.Errorf("byte %d came at %v, known to %d; want %v, %d", tt.position, at, end, tt.want, tt.end)
		}
	}
}

// TestArrivalsAreBounded: a reader that reads nothing costs a bounded memory, and all times stay
// known, less exactly.
func TestArrivalsAreBounded(t *testing.T) {
	log := segment.New("a", new(segment.Options))
	begin := time.Unix(1_000_000, 0)
	var a arrivals
	a.start(log, 0)
	const seconds = 100_000
	for i := range int64(seconds) {
		a.add(log, i+1, begin.Add(time.Duration(i)*time.Second))
		if len(a.times) > maxArrivals {
			t.Fatalf("%d times after %d seconds", len(a.times), i)
		}
	}
	for p := int64(0); p < seconds; p++ {
		came := begin.Add(time.Duration(p) * time.Second)
		at, end := a.of(p)
		if late := came.Sub(at); at.IsZero() || end <= p || late < 0 || late > 8*seconds/maxArrivals*time.Second {
			t.Fatalf("byte %d came at %v, known to %d; want %v", p, at, end, came)
		}
	}
	if a.of(seconds); a.times != nil {
		t.Errorf("%d times remain of what was read", len(a.times))
	}
}
