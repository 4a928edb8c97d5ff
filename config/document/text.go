package document

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Quote quotes s for a message of one line and truncates a long text.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// String returns s as a string of TOML.
func String(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Key returns a name as a key of TOML, with quotes if it needs them.
func Key(name string) string {
	for i := range len(name) {
		c := name[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && c != '_' && c != '-' {
			return String(name)
		}
	}
	if name == "" {
		return `""`
	}
	return name
}

// Printable returns s with escapes for all characters that could disturb a terminal.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Dotted returns a key as it is written in TOML.
func Dotted(parts []string) string {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		quoted[i] = part
		if part == "" || strings.ContainsFunc(part, notBare) {
			quoted[i] = strconv.Quote(part)
		}
	}
	return strings.Join(quoted, ".")
}

func notBare(r rune) bool { return r > 0x7f || !isBare(byte(r)) }
