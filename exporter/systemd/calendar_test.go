package systemd

import (
	"slices"
	"testing"

	"superd/config/codec"
)

// TestCalendar: systemd-analyze calendar takes each of these.
func TestCalendar(t *testing.T) {
	for line, want := range map[string][]string{
		"30 4 * * mon-fri": {"Mon..Fri *-*-* 04:30:00"},
		"*/15 * * * *":     {"*-*-* *:00,15,30,45:00"},
		"0 3 * * 7":        {"Sun *-*-* 03:00:00"},
		"0 3 * * 0,1":      {"Mon,Sun *-*-* 03:00:00"},
		"0 0 1,15 1-3 *":   {"*-01..03-01,15 00:00:00"},
		"0 0 13 * fri":     {"*-*-13 00:00:00", "Fri *-*-* 00:00:00"},
		"@weekly":          {"Sun *-*-* 00:00:00"},
		"@yearly":          {"*-01-01 00:00:00"},
		"5-7 * * * *":      {"*-*-* *:05..07:00"},
	} {
		schedule, err := codec.ParseSchedule(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := calendar(schedule); !slices.Equal(got, want) {
			t.Errorf("calendar(%q) = %q, want %q", line, got, want)
		}
	}
}
