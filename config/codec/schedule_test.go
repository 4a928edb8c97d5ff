package codec

import (
	"strings"
	"testing"
	"time"
)

func TestParseSchedule(t *testing.T) {
	from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) // a Thursday
	tests := []struct {
		line, next string // the time that follows from; "" if the line is refused
	}{
		{"30 4 * * mon-fri", "2026-01-01 04:30"},
		{"0 0 * * THU", "2026-01-08 00:00"},
		{"0 0 * MAR *", "2026-03-01 00:00"},
		{"@daily", "2026-01-02 00:00"},
		{"@yearly", "2027-01-01 00:00"},
		{"*/20 * * * *", "2026-01-01 00:20"},
		{"5/20 * * * *", "2026-01-01 00:05"},
		{" 0  12 * * * ", "2026-01-01 12:00"},
		{"0 22-2/2 * * *", "2026-01-01 02:00"},
		{"0 0 1,13 * fri", "2026-01-02 00:00"}, // a first, a 13th or a Friday
		{"0 0 * * 7", "2026-01-04 00:00"},
		{"0 0 29 2 *", "2028-02-29 00:00"},
		{"0 0 31 2 *", "0001-01-01 00:00"}, // never

		{line: "60 * * * *"}, {line: "* 24 * * *"}, {line: "* * 0 * *"}, {line: "* * * 13 *"}, {line: "* * * * 8"},
		{line: "*/0 * * * *"}, {line: "1, * * * *"}, {line: "-1 * * * *"}, {line: "1- * * * *"}, {line: "h * * * *"},
		{line: "* * l * *"}, {line: "* * * * fri#1"}, {line: "0 * * * * *"}, {line: "TZ=UTC * * * * *"},
		{line: "@reboot"}, {line: "@daily 1"}, {line: "@"}, {line: "+1 * * * *"}, {line: "1/+2 * * * *"},
	}
	for _, tt := range tests {
		got, err := ParseSchedule(tt.line)
		switch {
		case tt.next == "" && err == nil:
			t.Errorf("ParseSchedule(%q) accepts it", tt.line)
		case tt.next == "" && strings.Contains(err.Error(), "\n"):
			t.Errorf("ParseSchedule(%q): %v", tt.line, err)
		case tt.next == "":
		case err != nil:
			t.Errorf("ParseSchedule(%q): %v", tt.line, err)
		default:
			if next := got.Cron.Next(from).Format("2006-01-02 15:04"); next != tt.next {
				t.Errorf("%q runs after %v at %s, want %s", tt.line, from, next, tt.next)
			}
		}
	}
	if got, err := ParseSchedule("@every 1h30m"); err != nil || got.Every != 90*time.Minute || got.Cron != nil {
		t.Errorf("@every 1h30m is %v, %v", got, err)
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, line := range []string{"@every 5m", "30 4 * * mon-fri", "*/15 0-6,18-23/2 1 jan,Feb *", "@daily", "0 0 29 2 *", "? ? ? ? ?"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, err := ParseSchedule(line)
		if (err == nil) != (s.Every > 0 || s.Cron != nil) {
			t.Fatalf("ParseSchedule(%q) = %v, %v", line, s, err)
		}
		if s.Cron == nil {
			return
		}
		from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
		if next := s.Cron.Next(from); !next.IsZero() && (!next.After(from) || next.Second() != 0) {
			t.Fatalf("%q runs after %v at %v", line, from, next)
		}
	})
}
