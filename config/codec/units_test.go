package codec

import (
	"testing"
	"time"

	"superd/internal/words"
)

func TestShownDurationsAndSizesReadTheSame(t *testing.T) {
	for shown, d := range map[string]time.Duration{
		"0s": 0, "1ns": 1, "100ms": 100 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1m": time.Minute, "1h": time.Hour,
		"1h0m5s": time.Hour + 5*time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "20h": 20 * time.Hour,
	} {
		got, err := ParseDuration(shown)
		if err != nil || got != d || words.Duration(d) != shown {
			t.Errorf("%v is shown as %q; ParseDuration(%q) = %v, %v", d, words.Duration(d), shown, got, err)
		}
	}
	for shown, n := range map[string]int64{"0": 0, "1": 1, "999": 999, "1KB": 1000, "1KiB": 1024, "10MB": 10_000_000, "3GiB": 3 << 30, "2TB": 2e12} {
		got, err := parseSize(shown)
		if err != nil || got != n || ShowSize(n) != shown {
			t.Errorf("%d is shown as %q; parseSize(%q) = %d, %v", n, ShowSize(n), shown, got, err)
		}
	}
	for in, want := range map[string]int64{"1.5GB": 1_500_000_000, "1.5 kib": 1536, "0.0005KB": 0, "9223372036854775807": 1<<63 - 1, "7b": 7} {
		if got, err := parseSize(in); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MB", "1.2.3MB", "0x10", "1/3", "1e3", "+1", "1_000", "9223372036854775808", "1M", "1XB", "1 000"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", in, got)
		}
	}
}
