package config

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

// A report collects mistakes while a configuration is read.
type report struct {
	errors, warnings Errors
	fatal            bool // an error makes the whole configuration unusable
}

// A value is a value of a document, with its owner.
type value struct {
	document.Value
	report *report
	owner  *builder // program that a mistake makes invalid; nil: the whole configuration
}

// entry returns the entry of a table.
func (v value) entry(name string) value {
	v.Value = v.Value.Entry(name)
	return v
}

// keys returns the keys of a table, sorted.
func (v value) keys() []string {
	table, _ := v.Raw.(map[string]any)
	return slices.Sorted(maps.Keys(table))
}

// items returns the elements of an array.
func (v value) items() ([]value, bool) {
	elements, ok := v.Value.Items()
	items := make([]value, len(elements))
	for i, element := range elements {
		items[i] = value{element, v.report, v.owner}
	}
	return items, ok
}

// fail reports a mistake at the value.
func (v value) fail(format string, args ...any) { v.add(v.Mistake(format, args...)) }

// failKey reports a mistake at the value's key.
func (v value) failKey(format string, args ...any) { v.add(v.KeyMistake(format, args...)) }

func (v value) warn(format string, args ...any) {
	v.report.warnings = append(v.report.warnings, v.Mistake(format, args...))
}

// add reports e and makes the owner invalid.
func (v value) add(e *KeyError) {
	v.report.errors = append(v.report.errors, e)
	if v.owner == nil {
		v.report.fatal = true
		return
	}
	v.owner.Invalid = append(v.owner.Invalid, e)
}

// position returns file:line:column of the value.
func (v value) position() string { return v.Mistake("").Position() }

// str reads a string; what describes the expected string, as in "a duration such as "5s"". For a
// value of another type it suggests quotes if fits accepts the quoted text.
func (v value) str(what string, fits func(string) bool) (string, bool) {
	s, ok := v.Raw.(string)
	if !ok {
		remedy := ""
		switch raw := v.Raw.(type) {
		case int64, float64, bool:
			if quoted := fmt.Sprint(raw); fits(quoted) {
				remedy = fmt.Sprintf(": write %q", quoted)
			}
		}
		v.fail("must be %s, got %s%s", what, v.describe(), remedy)
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		v.fail("must not contain a NUL byte, got %s", document.Quote(s))
		return "", false
	}
	return s, true
}

// anyString is the fits of [value.str] that accepts any string.
func anyString(string) bool { return true }

// alone returns v with a separate report, to test whether a suggested value would be valid.
func (v value) alone() value {
	v.report, v.owner = &report{}, nil
	return v
}

// describe returns the value in the form used in messages.
func (v value) describe() string {
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

// oneOf returns "a", "a or b", "a, b or c".
func oneOf(values []string) string {
	if len(values) < 2 {
		return strings.Join(values, "")
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
