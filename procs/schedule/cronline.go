package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// A cronLine finds the times of a cron line in a time zone, also across changes of the zone's
// offset as for daylight saving. The library finds times of day as if each occurred once a day;
// cronLine turns them into instants. Rules of cron(8):
//
//   - A line that runs in every hour ("*/5 * * * *") follows elapsed time: it runs in both of two
//     equal hours, and a skipped hour is not made up for.
//   - Any other line follows the clock: a skipped time runs once, right after, and of a repeated
//     time the first counts.
type cronLine struct {
	times     *cron.SpecSchedule // in UTC, where each time occurs once
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
	from := onClock(t, offsetAt(t)) // exclusive lower bound for found
	// Each iteration handles one period of constant offset, which contains t.
	for {
		start, end := t.ZoneBounds()
		if !start.IsZero() && !l.everyHour {
			// Times that the clock showed before the change don't count again.
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
			return end // the clock skips that time
		}
		t, from = end, resumes.Add(-1)
	}
}

// onClock returns the reading of a clock with this offset from UTC at t, as a time in UTC.
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
