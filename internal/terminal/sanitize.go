package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"superd/internal/escape"
)

// tabStop is the distance between two tab stops.
const tabStop = 8

// Sanitize returns line in a form that is safe for a terminal: valid UTF-8 without control
// characters.
//
// Invalid UTF-8 and characters that change how other text is shown ([escape.Needed]) are written as
// Go escapes: \x1b, \u202e. Tabs become spaces up to the next tab stop. The line end, \n or \r\n,
// and sequences that only set colours are dropped, since they are harmless and common.
func Sanitize(line string) string { return sanitize(line, false) }

// SanitizeColoured is [Sanitize], except that colours stay until the end of the line.
func SanitizeColoured(line string) string {
	line = sanitize(line, true)
	if strings.Contains(line, "\x1b") {
		line += "\x1b[0m"
	}
	return line
}

func sanitize(line string, coloured bool) string {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if plain(line) {
		return line
	}
	var b strings.Builder
	b.Grow(len(line) + 16)
	column := 0
	for i, text := range strings.Split(line, "\t") {
		if i > 0 {
			pad := tabStop - column%tabStop
			b.WriteString(spaces(pad))
			column += pad
		}
		start := b.Len()
		sanitizeText(&b, text, coloured)
		shown := b.String()[start:]
		if coloured {
			var plain strings.Builder
			sanitizeText(&plain, text, false)
			shown = plain.String()
		}
		column += Width(shown)
	}
	return b.String()
}

// plain reports whether line is printable ASCII only.
func plain(line string) bool {
	for i := range len(line) {
		if c := line[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

func sanitizeText(b *strings.Builder, s string, coloured bool) {
	for i := 0; i < len(s); {
		if n := colourSequence(s[i:]); n > 0 {
			if coloured {
				b.WriteString(s[i : i+n])
			}
			i += n
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < 0x20, r == 0x7f:
			fmt.Fprintf(b, `\x%02x`, s[i])
		case escape.Needed(r) && r > 0xffff:
			fmt.Fprintf(b, `\U%08x`, r)
		case escape.Needed(r):
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
}

// colourSequence returns the length of the colour sequence at the start of s (SGR: ESC [, digits
// and separators, m; ECMA-48 8.3.117), 0 if there is none.
func colourSequence(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 0
		}
	}
	return 0
}

// Width returns the number of columns that s takes on a terminal.
func Width(s string) int {
	if plain(s) {
		return len(s)
	}
	return uniseg.StringWidth(s)
}

// Cut returns s, or as much of its beginning as fits in width columns with a final "…".
func Cut(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if Width(s) <= width {
		return s
	}
	end, used := 0, 0
	for rest, state := s, -1; rest != ""; {
		var cluster string
		var columns int
		cluster, rest, columns, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used+columns > width-1 {
			break
		}
		end, used = end+len(cluster), used+columns
	}
	return s[:end] + "…"
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }
