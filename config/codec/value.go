package codec

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config/document"
)

// A Report collects mistakes while a configuration is read.
type Report struct {
	Errors, Warnings document.Errors
	Fatal            bool // an error makes the whole configuration unusable
}

// A Value is a value of a document, with its owner.
type Value struct {
	document.Value
	Report *Report
	// Mistakes of the program that one makes invalid; nil: one makes the whole configuration so
	Owner *document.Errors
}

// Entry returns the entry of a table.
func (v Value) Entry(name string) Value {
	v.Value = v.Value.Entry(name)
	return v
}

// Keys returns the keys of a table, sorted.
func (v Value) Keys() []string {
	table, _ := v.Raw.(map[string]any)
	return slices.Sorted(maps.Keys(table))
}

// Items returns the elements of an array.
func (v Value) Items() ([]Value, bool) {
	elements, ok := v.Value.Items()
	items := make([]Value, len(elements))
	for i, element := range elements {
		items[i] = Value{element, v.Report, v.Owner}
	}
	return items, ok
}

// Fail reports a mistake at the value.
func (v Value) Fail(format string, args ...any) { v.Add(v.Mistake(format, args...)) }

// FailKey reports a mistake at the value's key.
func (v Value) FailKey(format string, args ...any) { v.Add(v.KeyMistake(format, args...)) }

// Warn reports what is legal, but probably not intended.
func (v Value) Warn(format string, args ...any) {
	v.Report.Warnings = append(v.Report.Warnings, v.Mistake(format, args...))
}

// Add reports e and makes the owner invalid.
func (v Value) Add(e *document.KeyError) {
	v.Report.Errors = append(v.Report.Errors, e)
	if v.Owner == nil {
		v.Report.Fatal = true
		return
	}
	*v.Owner = append(*v.Owner, e)
}

// Position returns file:line:column of the value.
func (v Value) Position() string { return v.Mistake("").Position() }

// Str reads a string; what describes the expected string, as in "a duration such as "5s"". For a
// value of another type it suggests quotes if fits accepts the quoted text.
func (v Value) Str(what string, fits func(string) bool) (string, bool) {
	s, ok := v.Raw.(string)
	if !ok {
		remedy := ""
		switch raw := v.Raw.(type) {
		case int64, float64, bool:
			if quoted := fmt.Sprint(raw); fits(quoted) {
				remedy = fmt.Sprintf(": write %q", quoted)
			}
		}
		v.Fail("must be %s, got %s%s", what, v.Describe(), remedy)
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		v.Fail("must not contain a NUL byte, got %s", document.Quote(s))
		return "", false
	}
	return s, true
}

// AnyString is the fits of [Value.Str] that accepts any string.
func AnyString(string) bool { return true }

// alone returns v with a separate report, to test whether a suggested value would be valid.
func (v Value) alone() Value {
	v.Report, v.Owner = &Report{}, nil
	return v
}

// Describe returns the value in the form used in messages.
func (v Value) Describe() string {
	switch raw := v.Raw.(type) {
	case string:
		return "the string " + document.Quote(raw)
	case int64:
		return "the integer " + strconv.FormatInt(raw, 10)
	case float64:
		return "the number " + showFloat(raw)
	case bool:
		return strconv.FormatBool(raw)
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	default:
		return "an array"
	}
}

func showFloat(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strings.ToLower(s)
	}
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
