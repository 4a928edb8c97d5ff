package fsm

import (
	"fmt"
	"strings"
	"time"
)

// roundDuration returns d rounded to three digits, from a minute on to seconds.
func roundDuration(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit)
}

// plain returns d without the zeros that its String method appends: 1m, not 1m0s.
func plain(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// plural returns "1 failure", "2 failures".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
