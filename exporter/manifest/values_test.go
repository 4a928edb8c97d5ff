package manifest

import (
	"testing"
	"time"
)

func TestCron(t *testing.T) {
	for _, tt := range []struct {
		schedule, line string
		exact          bool
	}{
		{"30 4 * * mon-fri", "30 4 * * mon-fri", true},
		{"@midnight", "@daily", true},
		{"0 3 * * 7", "0 3 * * 0", true},
		{"0 3 * * 5-7", "0 3 * * 0,5,6", true},
		{"@every 1m", "* * * * *", true},
		{"@every 15m", "*/15 * * * *", true},
		{"@every 7m", "*/6 * * * *", false},
		{"@every 1s", "* * * * *", false},
		{"@every 1h", "0 * * * *", true},
		{"@every 90m", "0 * * * *", false},
		{"@every 6h", "0 */6 * * *", true},
		{"@every 24h", "0 0 * * *", true},
		{"@every 36h", "0 0 * * *", false},
	} {
		if line, exact := Cron(tt.schedule); line != tt.line || exact != tt.exact {
			t.Errorf("Cron(%q) = %q, %v, want %q, %v", tt.schedule, line, exact, tt.line, tt.exact)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, time.Millisecond: 1, time.Second: 1, 1500 * time.Millisecond: 2} {
		if got := Seconds(d); got != want {
			t.Errorf("Seconds(%v) = %d, want %d", d, got, want)
		}
	}
}
