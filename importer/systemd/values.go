package systemd

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"superd/importer/draft"
)

// boolean reads a boolean of systemd.
func boolean(s string) bool {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	}
	return false
}

var timeUnits = map[string]time.Duration{
	"usec": time.Microsecond, "us": time.Microsecond, "µs": time.Microsecond,
	"msec": time.Millisecond, "ms": time.Millisecond,
	"seconds": time.Second, "second": time.Second, "sec": time.Second, "s": time.Second, "": time.Second,
	"minutes": time.Minute, "minute": time.Minute, "min": time.Minute, "m": time.Minute,
	"hours": time.Hour, "hour": time.Hour, "hr": time.Hour, "h": time.Hour,
	"days": 24 * time.Hour, "day": 24 * time.Hour, "d": 24 * time.Hour,
	"weeks": 168 * time.Hour, "week": 168 * time.Hour, "w": 168 * time.Hour,
	"months": 730 * time.Hour, "month": 730 * time.Hour, "M": 730 * time.Hour,
	"years": 8766 * time.Hour, "year": 8766 * time.Hour, "y": 8766 * time.Hour,
}

// timeSpan reads a time span such as "5min 20s"; infinite is true for "infinity".
func timeSpan(s string) (d time.Duration, infinite bool, err error) {
	if s = strings.TrimSpace(s); s == "infinity" {
		return 0, true, nil
	}
	bad := fmt.Errorf("%q is no time span", s)
	for rest := s; ; {
		rest = strings.TrimSpace(rest)
		if rest == "" {
			if s == "" {
				return 0, false, bad
			}
			return d, false, nil
		}
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		number, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil {
			return 0, false, bad
		}
		rest = strings.TrimLeft(rest[n:], " \t")
		u := strings.IndexAny(rest, "0123456789 \t")
		if u < 0 {
			u = len(rest)
		}
		factor, known := timeUnits[rest[:u]]
		if total := float64(d) + number*float64(factor); !known || total >= math.MaxInt64 {
			return 0, false, bad
		}
		d += time.Duration(number * float64(factor))
		rest = rest[u:]
	}
}

// size reads a number of bytes with a suffix of powers of 1024.
func size(s string) (n int64, err error) {
	factors := map[byte]float64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40, 'P': 1 << 50, 'E': 1 << 60}
	number, factor := strings.TrimSuffix(strings.TrimSpace(s), "B"), 1.0
	if number != "" {
		if f, ok := factors[number[len(number)-1]]; ok {
			number, factor = number[:len(number)-1], f
		}
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || value < 0 || value*factor >= math.MaxInt64 || strings.ContainsAny(number, "eEnN") {
		return 0, fmt.Errorf("%q is no size", s)
	}
	return int64(value * factor), nil
}

// split splits a value at blanks, with quotes and the escapes of C.
//
// Source: extract_first_word of systemd with EXTRACT_UNQUOTE and EXTRACT_CUNESCAPE.
func split(s string) (words []string, quoted []bool, err error) {
	var b strings.Builder
	inWord, wasQuoted := false, false
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			inWord = true
			i += escape(&b, s[i:]) - 1
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
		case (c == '"' || c == '\'') && !inWord:
			quote, inWord, wasQuoted = c, true, true
		case c == '"' || c == '\'':
			quote, wasQuoted = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if inWord {
				words, quoted = append(words, b.String()), append(quoted, wasQuoted)
			}
			b.Reset()
			inWord, wasQuoted = false, false
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, nil, fmt.Errorf("a quote in %q is not closed", s)
	}
	if inWord {
		words, quoted = append(words, b.String()), append(quoted, wasQuoted)
	}
	return words, quoted, nil
}

// escape writes the character for what follows a backslash, and returns the length of that.
func escape(b *strings.Builder, s string) int {
	simple := map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
		'\\': '\\', '"': '"', '\'': '\'', 's': ' '}
	if c, ok := simple[s[0]]; ok {
		b.WriteByte(c)
		return 1
	}
	if s[0] == 'x' && len(s) >= 3 {
		if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil && n > 0 && n < 0x80 {
			b.WriteByte(byte(n))
			return 3
		}
	}
	b.WriteString(`\` + s[:1])
	return 1
}

// words splits a list at blanks.
func words(s string) []string {
	list, _, err := split(s)
	if err != nil {
		return strings.Fields(s)
	}
	return list
}

// specifiers replaces %n, %i and the like in a value of u. unknown are those without a meaning
// here.
func (u *unit) specifiers(system draft.System, s string) (expanded string, unknown []string) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	ext := filepath.Ext(u.name)
	base := strings.TrimSuffix(u.name, ext)
	prefix, instance, _ := strings.Cut(base, "@")
	last := prefix[strings.LastIndexByte(prefix, '-')+1:]
	values := map[byte]string{
		'n': u.name, 'N': base, 'p': prefix, 'P': unescape(prefix), 'i': instance, 'I': unescape(instance),
		'j': last, 'J': unescape(last), 'f': "/" + unescape(cmpOr(instance, prefix)),
		't': "/run", 'S': "/var/lib", 'C': "/var/cache", 'L': "/var/log", 'E': "/etc",
		'T': "/tmp", 'V': "/var/tmp", 'h': "/root", 'u': "root", 'U': "0", 'g': "root", 'G': "0",
		's': "/bin/sh", 'H': system.Hostname(), '%': "%", 'y': u.path, 'Y': filepath.Dir(u.path),
	}
	values['l'], _, _ = strings.Cut(values['H'], ".")
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		value, known := values[s[i]]
		if !known {
			unknown = append(unknown, "%"+s[i:i+1])
			value = "%" + s[i:i+1]
		}
		b.WriteString(value)
	}
	return b.String(), unknown
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// unescape is systemd-escape --unescape.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '-':
			b.WriteByte('/')
		case s[i] == '\\' && i+3 < len(s) && s[i+1] == 'x':
			n, err := strconv.ParseUint(s[i+2:i+4], 16, 8)
			if err != nil {
				b.WriteByte(s[i])
				continue
			}
			b.WriteByte(byte(n))
			i += 3
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
