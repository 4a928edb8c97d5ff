package systemd

import (
	"fmt"
	"strings"
	"unicode"
)

// A unit is a unit file under construction.
type unit struct {
	comments []string
	sections []section
	err      error // the first value that no unit can have
}

type section struct {
	name  string
	lines []string
}

// set adds an assignment to a section.
func (u *unit) set(name, key, format string, args ...any) {
	value := fmt.Sprintf(format, args...)
	if u.err == nil && strings.ContainsFunc(value, unicode.IsControl) {
		u.err = fmt.Errorf("%s=%q has a control character, which no unit can have: write another value", key, value)
	}
	line := key + "=" + value
	for i := range u.sections {
		if u.sections[i].name == name {
			u.sections[i].lines = append(u.sections[i].lines, line)
			return
		}
	}
	u.sections = append(u.sections, section{name, []string{line}})
}

// sectionOrder is that in which units are usually written.
var sectionOrder = []string{"Unit", "Socket", "Timer", "Service", "Install"}

// text returns the file.
func (u *unit) text() string {
	var b strings.Builder
	for _, line := range u.comments {
		b.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
	for _, name := range sectionOrder {
		for _, s := range u.sections {
			if s.name != name {
				continue
			}
			if b.Len() > len(u.comments) {
				b.WriteByte('\n')
			}
			b.WriteString("[" + name + "]\n" + strings.Join(s.lines, "\n") + "\n")
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// quote returns a word as systemd splits it: in double quotes with the escapes of C, if need be.
// Specifiers and variables are as they stand.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("\"'\\;", r)
	}) < 0 {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoted returns words as one line.
func quoted(words []string) string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = quote(word)
	}
	return strings.Join(all, " ")
}

// specifier returns text in which systemd replaces nothing that begins with a percent sign.
func specifier(s string) string { return strings.ReplaceAll(s, "%", "%%") }
