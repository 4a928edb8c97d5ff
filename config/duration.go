package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/config/document"
)

// ParseDuration parses a duration like time.ParseDuration, such as "1.5s" or "1h30m", but requires
// a unit even for 0.
func ParseDuration(s string) (time.Duration, error) {
	return parseDuration(s, "", func(d time.Duration) bool { return d >= 0 })
}

// parseDuration is [ParseDuration] for a value with the prefix before. It proposes only durations
// for which fits reports true.
func parseDuration(s, before string, fits func(time.Duration) bool) (time.Duration, error) {
	example := strconv.Quote(before + "5s")
	if s == "" {
		return 0, errors.New("is empty: write a duration such as " + example)
	}
	compact := strings.Join(strings.Fields(s), "")
	if d, err := time.ParseDuration(compact + "s"); err == nil && strings.IndexFunc(compact, isUnitLetter) < 0 {
		if fits(d) {
			example = strconv.Quote(before + compact + "s")
		} else {
			example = "a duration such as " + example
		}
		return 0, fmt.Errorf("%s has no unit: write %s", document.Quote(s), example)
	}
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if d, err := time.ParseDuration(compact); err == nil && fits(d) {
		return 0, fmt.Errorf("%s contains blanks: write %q", document.Quote(s), before+compact)
	}
	return 0, fmt.Errorf("%s is not a duration: write numbers with the units h, m, s, ms, us or ns, as in %q or %q",
		document.Quote(s), before+"1h30m", before+"1.5s")
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
