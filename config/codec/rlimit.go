package codec

import (
	"strconv"
	"strings"
	"time"

	"superd/config/document"
	"superd/internal/rlimit"
	"superd/internal/words"
)

// infinity is the value of a limit that does not limit.
const infinity = "infinity"

// Rlimit reads a value, "infinity", or "SOFT:HARD" with two of these, as systemd does. A single
// value is the soft and the hard limit.
func Rlimit(resource rlimit.Resource, values Codec[int64]) Codec[rlimit.Limit] {
	show := func(n uint64) string {
		if n == rlimit.Infinity {
			return infinity
		}
		return strings.Trim(values.Show(int64(n)), `"`)
	}
	// one reads one value of a string.
	one := func(v Value, text string) (uint64, bool) {
		if text == infinity {
			return rlimit.Infinity, true
		}
		v.Raw = text
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			v.Raw = n
		}
		n, ok := values.Read(v)
		return uint64(n), ok
	}
	return Codec[rlimit.Limit]{
		Name:   values.Name + `, "infinity" or "SOFT:HARD"`,
		Schema: func() *Schema { return rlimits(values.Schema()) },
		Show: func(l rlimit.Limit) string {
			if l.Soft != l.Hard {
				return strconv.Quote(show(l.Soft) + ":" + show(l.Hard))
			}
			if l.Soft == rlimit.Infinity {
				return strconv.Quote(infinity)
			}
			return values.Show(int64(l.Soft))
		},
		Read: func(v Value) (rlimit.Limit, bool) {
			l := rlimit.Limit{Resource: resource}
			text, isString := v.Raw.(string)
			soft, hard, both := strings.Cut(text, ":")
			switch {
			case isString && both:
				var softOK, hardOK bool
				l.Soft, softOK = one(v, soft)
				l.Hard, hardOK = one(v, hard)
				if !softOK || !hardOK {
					return l, false
				}
				if l.Soft > l.Hard {
					v.Fail("the soft limit, %s, must not be above the hard limit, %s, got %s", show(l.Soft), show(l.Hard), document.Quote(text))
					return l, false
				}
				return l, true
			case isString && text == infinity:
				l.Soft, l.Hard = rlimit.Infinity, rlimit.Infinity
				return l, true
			}
			n, ok := values.Read(v)
			l.Soft, l.Hard = uint64(n), uint64(n)
			return l, ok
		},
	}
}

// TimeIn reads a duration as a number of units, which it must be a multiple of.
func TimeIn(unit time.Duration) Codec[int64] {
	times := Duration(false)
	return Codec[int64]{
		Name:   times.Name,
		Schema: times.Schema,
		Show:   func(n int64) string { return times.Show(time.Duration(n) * unit) },
		Read: func(v Value) (int64, bool) {
			d, ok := times.Read(v)
			if ok && d%unit != 0 {
				v.Fail("must be a multiple of %s, got %s", words.Duration(unit), words.Duration(d))
				return 0, false
			}
			return int64(d / unit), ok
		},
	}
}
