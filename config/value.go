package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A report collects mistakes while a configuration is read.
type report struct {
	errors, warnings Errors
	fatal            bool // one of the errors makes the whole file useless
}

// A value is something written in a source: what it is, where it stands and whose it is.
type value struct {
	src    *source
	report *report
	owner  *draft // the program that a mistake makes invalid; nil: the whole file
	key    []string
	at     *node
	raw    any // as the TOML decoder returns it
}

// kid returns the entry of a table.
func (v value) kid(name string) value {
	table, _ := v.raw.(map[string]any)
	v.key = append(slices.Clip(v.key), name)
	v.at = v.at.kid(name)
	v.raw = table[name]
	return v
}

// items returns the elements of an array.
func (v value) items() ([]value, bool) {
	var raws []any
	switch raw := v.raw.(type) {
	case []any:
		raws = raw
	case []map[string]any:
		for _, table := range raw {
			raws = append(raws, table)
		}
	default:
		return nil, false
	}
	items := make([]value, len(raws))
	for i, raw := range raws {
		items[i] = v
		items[i].at, items[i].raw = v.at.item(i), raw
	}
	return items, true
}

// fail reports a mistake at the value.
func (v value) fail(format string, args ...any) {
	v.add(v.mistake(v.at.value, format, args...))
}

// failKey reports a mistake at the value's key.
func (v value) failKey(format string, args ...any) {
	v.add(v.mistake(v.at.key, format, args...))
}

func (v value) warn(format string, args ...any) {
	v.report.warnings = append(v.report.warnings, v.mistake(v.at.value, format, args...))
}

func (v value) mistake(offset int, format string, args ...any) *KeyError {
	e := v.src.mistake(offset, fmt.Errorf(format, args...))
	e.Key = dotted(v.key)
	return e
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

// place returns file:line:column of the value.
func (v value) place() string { return v.mistake(v.at.value, "").place() }

// text returns what is written in the file from the value on.
func (v value) text() string { return v.src.text[v.at.value:] }

// str reads a string; what says what kind of string is wanted, as in "a duration such as "5s"".
func (v value) str(what string) (string, bool) {
	s, ok := v.raw.(string)
	if !ok {
		remedy := ""
		switch raw := v.raw.(type) {
		case int64, float64, bool:
			remedy = fmt.Sprintf(": write %q", fmt.Sprint(raw))
		}
		v.fail("must be %s, got %s%s", what, v.describe(), remedy)
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		v.fail("must not contain a NUL byte, got %s", shorten(s))
		return "", false
	}
	return s, true
}

// describe returns the value as messages show it.
func (v value) describe() string {
	switch raw := v.raw.(type) {
	case string:
		return "the string " + shorten(raw)
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

// shorten quotes s for a message of one line.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
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
