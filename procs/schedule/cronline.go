package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// A cronLine finds the times of a cron line in a time zone, right across changes of the zone's offset, as daylight saving makes
// them. The library finds the times of day, as if each came once a day; here they become instants. Rules of cron(8):
//
//   - A line that runs in every hour ("*/5 * * * *") runs as time passes: in both of two equal hours, and there is nothing to
//     make up for a skipped one.
//   - Any other line keeps to the clock: a time that is skipped runs once, right after, and of a time that comes twice
//     the first counts.
type cronLine struct {
	times     *cron.SpecSchedule // in UTC, where each time comes once
	location  *time.Location
	everyHour bool
}

func newCronLine(times *cron.SpecSchedule, location *time.Location) *cronLine {
	const allHours = 1<<24 - 1
	return &cronLine{times, location, times.Hour&allHours == allHours}
}

// next returns the first time of the line after t, zero if there is none.
func (l *cronLine) next(t time.Time) time.Time {
	t = t.In(l.location)
	from := onClock(t, offsetAt(t)) // found is after this
	for {                           // each time around is a stretch of one offset, which t is in
		start, end := t.ZoneBounds()
		if !start.IsZero() && !l.everyHour {
			// What the clock has shown before the change doesn't count again.
			from = later(from, onClock(start, offsetAt(start.Add(-1))).Add(-1))
		}
		found := l.times.Next(from)
		if found.IsZero() {
			return found
		}
		at := found.Add(-offsetAt(t)).In(l.location)
		if end.IsZero() || at.Before(end) {
			return at
		}
		resumes := onClock(end, offsetAt(end))
		if !l.everyHour && found.Before(resumes) {
			return end // the clock skips it
		}
		t, from = end, resumes.Add(-1)
	}
}

// onClock returns what a clock with this offset from UTC shows at t, as a time of UTC.
func onClock(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

func offsetAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
