package words

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{1234567 * time.Nanosecond, "1.23ms"},
		{1999999 * time.Nanosecond, "2ms"},
		{59999 * time.Millisecond, "1m"},
		{61499 * time.Millisecond, "1m1s"},
		{10 * time.Minute, "10m"},
		{2 * time.Hour, "2h"},
		{2*time.Hour + 10*time.Minute, "2h10m"},
	}
	for _, tt := range tests {
		if got := Duration(Round(tt.d)); got != tt.want {
			t.Errorf("Duration(Round(%v)) = %s, want %s", tt.d, got, tt.want)
		}
	}
}

func TestPlural(t *testing.T) {
	for n, want := range []string{"0 lines", "1 line", "2 lines"} {
		if got := Plural(n, "line"); got != want {
			t.Errorf("Plural(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestCoarse(t *testing.T) {
	tests := []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"}, {12345 * time.Nanosecond, "12µs"}, {12345 * time.Microsecond, "12ms"}, {1655 * time.Millisecond, "1.6s"},
		{62*time.Second + 900*time.Millisecond, "1m2s"}, {time.Hour, "1h"}, {47*time.Hour + 59*time.Minute, "47h59m"}, {75 * time.Hour, "3d3h"},
	}
	for _, tt := range tests {
		if got := Coarse(tt.d); got != tt.want {
			t.Errorf("Coarse(%d) = %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestRunLength(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234567 * time.Microsecond: "1.23s", time.Minute: "1m", 75 * time.Hour: "3d3h",
	} {
		if got := RunLength(d); got != want {
			t.Errorf("RunLength(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	if once, twice := Times(1), Times(2); once != "once" || twice != "2 times" {
		t.Errorf("Times(1), Times(2) = %q, %q", once, twice)
	}
}
