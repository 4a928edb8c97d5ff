package schedule

import (
	"slices"
	"testing"
	"time"

	"superd/config/codec"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func line(t testing.TB, s, zoneName string) *cronLine {
	t.Helper()
	parsed, err := codec.ParseSchedule(s)
	if err != nil {
		t.Fatal(err)
	}
	return newCronLine(parsed.Cron, zone(t, zoneName))
}

// runs lists the times of the line between two instants, each as time of day and offset.
func (l *cronLine) runs(from, to time.Time) (runs []string) {
	for t := l.next(from.Add(-1)); t.Before(to); t = l.next(t) {
		runs = append(runs, t.In(l.location).Format("2 15:04 -07"))
	}
	return runs
}

func TestDaylightSaving(t *testing.T) {
	const berlin, newYork, lordHowe, havana, apia = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"
	tests := []struct {
		name, line, zone, day string
		days                  int
		want                  []string
	}{
		{"a skipped time runs right after", "30 2 * * *", berlin, "2026-03-28", 3,
			[]string{"28 02:30 +01", "29 03:00 +02", "30 02:30 +02"}},
		{"a time that comes twice runs once, first", "30 2 * * *", berlin, "2026-10-24", 3,
			[]string{"24 02:30 +02", "25 02:30 +02", "26 02:30 +01"}},
		{"two skipped times are one run", "0,30 2 * * *", berlin, "2026-03-29", 1, []string{"29 03:00 +02"}},
		{"a skipped time and one that comes then are one run", "0 2,3 * * *", berlin, "2026-03-29", 1, []string{"29 03:00 +02"}},
		{"the time of the change", "0 3 * * *", berlin, "2026-03-29", 1, []string{"29 03:00 +02"}},
		{"before the repeated hour", "0 1,3 * * *", berlin, "2026-10-25", 1, []string{"25 01:00 +02", "25 03:00 +01"}},
		{"the last minute before the change", "59 1 * * *", berlin, "2026-03-29", 1, []string{"29 01:59 +01"}},
		{"every two hours over a skipped one", "0 */2 * * *", berlin, "2026-03-29", 1, []string{"29 00:00 +01", "29 03:00 +02",
			"29 04:00 +02", "29 06:00 +02", "29 08:00 +02", "29 10:00 +02", "29 12:00 +02", "29 14:00 +02", "29 16:00 +02", "29 18:00 +02",
			"29 20:00 +02", "29 22:00 +02"}},
		{"every minute of one hour that is repeated", "*/20 2 * * *", berlin, "2026-10-25", 1,
			[]string{"25 02:00 +02", "25 02:20 +02", "25 02:40 +02"}},
		{"midnight that doesn't exist", "0 0 * * *", havana, "2026-03-07", 3, []string{"7 00:00 -05", "8 01:00 -04", "9 00:00 -04"}},
		{"half an hour that is skipped", "15 2 * * *", lordHowe, "2026-10-04", 2, []string{"4 02:30 +11", "5 02:15 +11"}},
		{"half an hour that comes twice", "45 1 * * *", lordHowe, "2026-04-05", 2, []string{"5 01:45 +11", "6 01:45 +1030"}},
		{"a day that doesn't exist", "0 12 30 12 *", apia, "2011-12-29", 3, []string{"31 00:00 +14"}},
		{"no daylight saving", "30 2 * * *", "UTC", "2026-03-29", 2, []string{"29 02:30 +00", "30 02:30 +00"}},
		{"once a year", "@yearly", newYork, "2026-01-01", 800, []string{"1 00:00 -05", "1 00:00 -05", "1 00:00 -05"}},
		{"hourly over a change", "0 * * * *", newYork, "2026-11-01", 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := line(t, tt.line, tt.zone)
			from, err := time.ParseInLocation(time.DateOnly, tt.day, l.location)
			if err != nil {
				t.Fatal(err)
			}
			got := l.runs(from, from.AddDate(0, 0, tt.days))
			if tt.want == nil { // every hour of elapsed time
				for at := from; at.Before(from.AddDate(0, 0, tt.days)); at = at.Add(time.Hour) {
					tt.want = append(tt.want, at.Format("2 15:04 -07"))
				}
			}
			for i, s := range got {
				got[i] = shortOffset(s)
			}
			for i, s := range tt.want {
				tt.want[i] = shortOffset(s)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q in %s:\ngot  %q\nwant %q", tt.line, tt.zone, got, tt.want)
			}
		})
	}
}

// shortOffset drops the minutes of an offset.
func shortOffset(s string) string {
	for i, c := range s {
		if c == '+' || c == '-' {
			return s[:i+3]
		}
	}
	return s
}

// TestNextAgreesWithAWalk compares next with a walk, minute by minute, around each change of the
// offset: a time that the clock first shows runs, a time that it skips runs at the first minute
// after.
func TestNextAgreesWithAWalk(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Havana"} {
		_, change := time.Date(2026, time.January, 1, 0, 0, 0, 0, zone(t, name)).ZoneBounds()
		_, back := change.ZoneBounds()
		for _, spec := range []string{"30 2 * * *", "0 0 * * *", "0,45 1-3 * * *", "15 */3 * * sun", "7 * * * *", "*/30 * * * sat"} {
			l := line(t, spec, name)
			for _, middle := range []time.Time{change, back} {
				from, to := middle.Add(-30*time.Hour), middle.Add(30*time.Hour)
				got, want := l.runs(from, to), l.walk(from, to)
				if !slices.Equal(got, want) {
					t.Errorf("%q in %s:\ngot  %q\nwant %q", spec, name, got, want)
				}
			}
		}
	}
}

func (l *cronLine) walk(from, to time.Time) (runs []string) {
	shown := onClock(from, offsetAt(from)).Add(-1) // the latest that the clock has shown
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		now := onClock(at, offsetAt(at))
		if l.everyHour {
			shown = now.Add(-1)
		}
		if next := l.times.Next(shown); !next.After(now) {
			runs = append(runs, at.Format("2 15:04 -07"))
		}
		shown = later(shown, now)
	}
	return runs
}

func TestNever(t *testing.T) {
	if next := line(t, "0 0 31 2 *", "Europe/Berlin").next(time.Now()); !next.IsZero() {
		t.Errorf("31 February comes at %v", next)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, spec := range []string{"*/5 * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 29 2 mon", "0 0 31 2 *"} {
		b.Run(spec, func(b *testing.B) {
			l := line(b, spec, "Europe/Berlin")
			from := time.Date(2026, time.March, 1, 0, 0, 0, 0, l.location)
			for b.Loop() {
				l.next(from)
			}
		})
	}
}
