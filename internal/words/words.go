// Package words writes durations, numbers and lists for people, and finds the word that they meant.
package words

import (
	"fmt"
	"strings"
	"time"
)

// Round returns d with three digits or, from a minute on, in whole seconds.
func Round(d time.Duration) time.Duration {
	if d >= time.Minute {
		return d.Round(time.Second)
	}
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit)
}

// Duration returns d without the zeros that its String method appends: 1m, not 1m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Plural returns a number with its noun: "1 failure", "2 failures".
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Coarse returns d as text, without its smaller units.
func Coarse(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); { // the wall clock may have been set back
	case d >= 2*day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return Duration(d.Truncate(time.Minute))
	case d >= 10*time.Second:
		return Duration(d.Truncate(time.Second))
	case d >= time.Second:
		return Duration(d.Truncate(100 * time.Millisecond))
	case d >= time.Millisecond:
		return Duration(d.Truncate(time.Millisecond))
	}
	return d.Truncate(time.Microsecond).String()
}

// RunLength returns the duration of a run as text: below a minute with three digits, else coarsely.
func RunLength(d time.Duration) string {
	if d < time.Minute {
		return Duration(Round(d))
	}
	return Coarse(d)
}

// Times returns how often something has happened: "once", "2 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
