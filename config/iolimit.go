package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/config/document"
)

// An IOLimit bounds what a program reads from one device and writes to it. nil: no limit.
type IOLimit struct {
	Path              string // a block device, or a file on it
	Read, Write       *int64 // bytes a second
	ReadOps, WriteOps *int64 // operations a second
}

// ioRates are the keys of a device, in the order in which they are shown.
var ioRates = []struct {
	name  string
	kind  codec[int64]
	field func(*IOLimit) **int64
}{
	{"read", size(1), func(l *IOLimit) **int64 { return &l.Read }},
	{"write", size(1), func(l *IOLimit) **int64 { return &l.Write }},
	{"read_ops", integer[int64](1, 1<<30), func(l *IOLimit) **int64 { return &l.ReadOps }},
	{"write_ops", integer[int64](1, 1<<30), func(l *IOLimit) **int64 { return &l.WriteOps }},
}

// ioLimits reads a table with a table of rates for each device.
var ioLimits = codec[[]IOLimit]{
	name: "table of tables",
	show: func(limits []IOLimit) string {
		if len(limits) == 0 {
			return ""
		}
		devices := make([]string, len(limits))
		for i := range limits {
			var rates []string
			for _, rate := range ioRates {
				if n := *rate.field(&limits[i]); n != nil {
					rates = append(rates, rate.name+" = "+rate.kind.show(*n))
				}
			}
			devices[i] = fmt.Sprintf("%q = { %s }", limits[i].Path, strings.Join(rates, ", "))
		}
		return "{ " + strings.Join(devices, ", ") + " }"
	},
	read: func(v value) ([]IOLimit, bool) {
		const example = `write { "/dev/sda" = { read = "10MB", write_ops = 100 } }`
		if _, ok := v.Raw.(map[string]any); !ok {
			v.fail("must be a table of devices, got %s: %s", v.describe(), example)
			return nil, false
		}
		var limits []IOLimit
		all := true
		for _, path := range v.keys() {
			entry := v.entry(path)
			l, ok := readIOLimit(entry, path)
			if ok && slices.ContainsFunc(limits, func(other IOLimit) bool { return other.Path == l.Path }) {
				entry.failKey("names %s for the second time: remove one", document.Quote(l.Path))
				ok = false
			}
			limits, all = append(limits, l), all && ok
		}
		slices.SortFunc(limits, func(a, b IOLimit) int { return cmp.Compare(a.Path, b.Path) })
		return limits, all
	},
}

// readIOLimit reads the table of one device.
func readIOLimit(v value, path string) (l IOLimit, ok bool) {
	if !filepath.IsAbs(path) {
		v.failKey(`%s is not an absolute path: write that of a device, such as "/dev/sda", or of a file on it`, document.Quote(path))
		return l, false
	}
	if _, isTable := v.Raw.(map[string]any); !isTable {
		v.fail(`must be a table such as { read = "10MB", write_ops = 100 }, got %s`, v.describe())
		return l, false
	}
	l.Path, ok = filepath.Clean(path), true
	names := make([]string, len(ioRates))
	for i, rate := range ioRates {
		names[i] = rate.name
	}
	for _, name := range v.keys() {
		entry := v.entry(name)
		i := slices.Index(names, name)
		if i < 0 {
			entry.failKey("unknown key %s%s", document.Quote(name), didYouMean(name, names, ": it can be "+oneOf(names)+" here"))
			ok = false
			continue
		}
		n, fits := ioRates[i].kind.read(entry)
		*ioRates[i].field(&l), ok = &n, ok && fits
	}
	if len(v.keys()) == 0 {
		v.fail("limits nothing: add %s", oneOf(names))
		return l, false
	}
	return l, ok
}
