package codec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/config/document"
	"superd/internal/words"
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
	kind  Codec[int64]
	field func(*IOLimit) **int64
}{
	{"read", Size(1), func(l *IOLimit) **int64 { return &l.Read }},
	{"write", Size(1), func(l *IOLimit) **int64 { return &l.Write }},
	{"read_ops", Integer[int64](1, 1<<30), func(l *IOLimit) **int64 { return &l.ReadOps }},
	{"write_ops", Integer[int64](1, 1<<30), func(l *IOLimit) **int64 { return &l.WriteOps }},
}

// IOLimits reads a table with a table of rates for each device.
var IOLimits = Codec[[]IOLimit]{
	Name:   "table of tables",
	Schema: ioLimits,
	Show: func(limits []IOLimit) string {
		if len(limits) == 0 {
			return ""
		}
		devices := make([]string, len(limits))
		for i := range limits {
			var rates []string
			for _, rate := range ioRates {
				if n := *rate.field(&limits[i]); n != nil {
					rates = append(rates, rate.name+" = "+rate.kind.Show(*n))
				}
			}
			devices[i] = fmt.Sprintf("%q = { %s }", limits[i].Path, strings.Join(rates, ", "))
		}
		return "{ " + strings.Join(devices, ", ") + " }"
	},
	Read: func(v Value) ([]IOLimit, bool) {
		const example = `write { "/dev/sda" = { read = "10MB", write_ops = 100 } }`
		if _, ok := v.Raw.(map[string]any); !ok {
			v.Fail("must be a table of devices, got %s: %s", v.Describe(), example)
			return nil, false
		}
		var limits []IOLimit
		all := true
		for _, path := range v.Keys() {
			entry := v.Entry(path)
			l, ok := readIOLimit(entry, path)
			if ok && slices.ContainsFunc(limits, func(other IOLimit) bool { return other.Path == l.Path }) {
				entry.FailKey("names %s for the second time: remove one", document.Quote(l.Path))
				ok = false
			}
			limits, all = append(limits, l), all && ok
		}
		slices.SortFunc(limits, func(a, b IOLimit) int { return cmp.Compare(a.Path, b.Path) })
		return limits, all
	},
}

// ioLimits returns the schema of [IOLimits].
func ioLimits() *Schema {
	device := &Schema{
		Type: Types{"object"}, Properties: map[string]*Schema{}, AdditionalProperties: false, MinProperties: 1,
	}
	for _, rate := range ioRates {
		device.Properties[rate.name] = rate.kind.Schema()
	}
	return &Schema{Type: device.Type, PropertyNames: &Schema{Pattern: "^/"}, AdditionalProperties: device}
}

// readIOLimit reads the table of one device.
func readIOLimit(v Value, path string) (l IOLimit, ok bool) {
	if !filepath.IsAbs(path) {
		v.FailKey(`%s is not an absolute path: write that of a device, such as "/dev/sda", or of a file on it`, document.Quote(path))
		return l, false
	}
	if _, isTable := v.Raw.(map[string]any); !isTable {
		v.Fail(`must be a table such as { read = "10MB", write_ops = 100 }, got %s`, v.Describe())
		return l, false
	}
	l.Path, ok = filepath.Clean(path), true
	names := make([]string, len(ioRates))
	for i, rate := range ioRates {
		names[i] = rate.name
	}
	for _, name := range v.Keys() {
		entry := v.Entry(name)
		i := slices.Index(names, name)
		if i < 0 {
			entry.FailKey("unknown key %s%s", document.Quote(name), words.DidYouMean(name, names, ": it can be "+words.OneOf(names)+" here"))
			ok = false
			continue
		}
		n, fits := ioRates[i].kind.Read(entry)
		*ioRates[i].field(&l), ok = &n, ok && fits
	}
	if len(v.Keys()) == 0 {
		v.Fail("limits nothing: add %s", words.OneOf(names))
		return l, false
	}
	return l, ok
}
