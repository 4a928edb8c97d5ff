package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config/codec"
	"superd/config/document"
	"superd/internal/rlimit"
	"superd/internal/words"
)

// Rlimits are the limits that each process of a program has for itself, sorted by resource.
type Rlimits []rlimit.Limit

// With returns r with the limit l in place of the one for the same resource. It does not change r,
// which the programs share that have it from [defaults].
func (r Rlimits) With(l rlimit.Limit) Rlimits {
	at, found := r.find(l.Resource)
	r = slices.Clone(r)
	if found {
		r[at] = l
		return r
	}
	return slices.Insert(r, at, l)
}

// Of returns the limit for a resource.
func (r Rlimits) Of(resource rlimit.Resource) (l rlimit.Limit, ok bool) {
	at, ok := r.find(resource)
	if !ok {
		return rlimit.Limit{}, false
	}
	return r[at], true
}

func (r Rlimits) find(resource rlimit.Resource) (at int, ok bool) {
	return slices.BinarySearchFunc(r, resource, func(l rlimit.Limit, resource rlimit.Resource) int {
		return cmp.Compare(l.Resource, resource)
	})
}

// bindRlimit returns the key of a limit for each process.
func bindRlimit(resource rlimit.Resource, values codec.Codec[int64], doc string) key {
	k := rlimitOf(resource, values)
	return reading("superd's own", key{
		table: "program", name: "limits." + resource.String(), codec: k.Name, doc: doc,
		set: func(d *builder, v codec.Value) {
			if l, ok := k.Read(v); ok {
				d.Limits.Rlimits = d.Limits.Rlimits.With(l)
			}
		},
		get: func(d *builder) any { l, ok := d.Limits.Rlimits.Of(resource); return [2]any{l, ok} },
		shown: func(d *builder) string {
			if l, ok := d.Limits.Rlimits.Of(resource); ok {
				return k.Show(l)
			}
			return ""
		},
	})
}

// infinity is the value of a limit that does not limit.
const infinity = "infinity"

// rlimitOf reads a value, "infinity", or "SOFT:HARD" with two of these, as systemd does. A single
// value is the soft and the hard limit.
func rlimitOf(resource rlimit.Resource, values codec.Codec[int64]) codec.Codec[rlimit.Limit] {
	show := func(n uint64) string {
		if n == rlimit.Infinity {
			return infinity
		}
		return strings.Trim(values.Show(int64(n)), `"`)
	}
	// one reads one value of a string.
	one := func(v codec.Value, text string) (uint64, bool) {
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
	return codec.Codec[rlimit.Limit]{
		Name: values.Name + `, "infinity" or "SOFT:HARD"`,
		Show: func(l rlimit.Limit) string {
			if l.Soft != l.Hard {
				return strconv.Quote(show(l.Soft) + ":" + show(l.Hard))
			}
			if l.Soft == rlimit.Infinity {
				return strconv.Quote(infinity)
			}
			return values.Show(int64(l.Soft))
		},
		Read: func(v codec.Value) (rlimit.Limit, bool) {
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

// timeIn reads a duration as a number of units, which it must be a multiple of.
func timeIn(unit time.Duration) codec.Codec[int64] {
	times := codec.Duration(false)
	return codec.Codec[int64]{
		Name: times.Name,
		Show: func(n int64) string { return times.Show(time.Duration(n) * unit) },
		Read: func(v codec.Value) (int64, bool) {
			d, ok := times.Read(v)
			if ok && d%unit != 0 {
				v.Fail("must be a multiple of %s, got %s", words.Duration(unit), words.Duration(d))
				return 0, false
			}
			return int64(d / unit), ok
		},
	}
}

// checkRlimits warns of limits that superd could not set with the rights of this process.
func (l *loader) checkRlimits(d *builder) {
	for _, limit := range d.Limits.Rlimits {
		if err := l.machine.setLimit(limit.Resource, limit.Hard); err != nil {
			d.mistakeAt(fmt.Sprintf("limits.%s", limit.Resource)).Warn("%w", err)
		}
	}
}
