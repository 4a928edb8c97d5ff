package document

import (
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
