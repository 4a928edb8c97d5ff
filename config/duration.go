package config

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// parseDuration reads a duration as time.ParseDuration does, "1.5s" or "1h30m", and wants a unit even for 0.
func parseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New(`is empty: write a duration such as "5s"`)
	}
	compact := strings.Join(strings.Fields(s), "")
	if _, err := time.ParseDuration(compact + "s"); err == nil && strings.IndexFunc(compact, isUnitLetter) < 0 {
		return 0, fmt.Errorf("%s has no unit: write %q", shorten(s), compact+"s")
	}
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, err := time.ParseDuration(compact); err == nil {
		return 0, fmt.Errorf("%s contains blanks: write %q", shorten(s), compact)
	}
	return 0, fmt.Errorf(`%s is not a duration: write numbers with the units h, m, s, ms, us or ns, as in "1h30m" or "1.5s"`, shorten(s))
}

func isUnitLetter(r rune) bool { return r != '.' && r != '+' && r != '-' && (r < '0' || r > '9') }

// showDuration returns d without the zeros that its String method appends: "1m", not "1m0s".
func showDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
