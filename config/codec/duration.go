package codec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/config/document"
	"superd/internal/words"
)

// ParseDuration parses a duration like time.ParseDuration, such as "1.5s" or "1h30m", but requires
// a unit even for 0.
func ParseDuration(s string) (time.Duration, error) {
	return ParseDurationAfter(s, "", func(d time.Duration) bool { return d >= 0 })
}

// ParseDurationAfter is [ParseDuration] for a value with the prefix before. It proposes only
// durations for which fits reports true.
func ParseDurationAfter(s, before string, fits func(time.Duration) bool) (time.Duration, error) {
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

// Duration reads a duration greater than 0, or also 0 if zero is set.
func Duration(zero bool) Codec[time.Duration] {
	return Codec[time.Duration]{
		Name:   "duration",
		Show:   func(d time.Duration) string { return strconv.Quote(words.Duration(d)) },
		Schema: func() *Schema { return durations(zero) },
		Read: func(v Value) (time.Duration, bool) {
			const what = `a duration such as "5s"`
			fits := func(d time.Duration) bool { return d > 0 || zero && d == 0 }
			switch raw := v.Raw.(type) {
			case int64, float64:
				remedy := ""
				seconds := fmt.Sprint(raw) + "s"
				if d, err := time.ParseDuration(seconds); err == nil && fits(d) {
					remedy = fmt.Sprintf(": write %q", seconds)
				}
				v.Fail("must be %s, got %s%s", what, v.Describe(), remedy)
				return 0, false
			}
			s, ok := v.Str(what, func(string) bool { return false })
			if !ok {
				return 0, false
			}
			d, err := ParseDurationAfter(s, "", fits)
			switch {
			case err != nil:
				v.Fail("%w", err)
			case d < 0 && zero:
				v.Fail("must not be negative, got %q", s)
			case d <= 0 && !zero:
				v.Fail("must be more than 0s, got %q", s)
			default:
				return d, true
			}
			return 0, false
		},
	}
}
