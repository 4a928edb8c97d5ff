package document

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxExpanded is the length of the longest string, without its final NUL, that the kernel passes to
// a program. It bounds the growth of variables that refer to each other. Source: MAX_ARG_STRLEN in
// man 2 execve, with pages of 4 KiB.
const maxExpanded = 32*4096 - 1

// A piece is one part of a template: literal text, or a reference to a variable.
type piece struct {
	text        string // literal text, or the default of a reference
	name        string // "" for literal text
	hasFallback bool
	sum         *sum // not nil: the variable is a number to calculate with
}

// A sum adds a multiple of a variable to a number.
type sum struct{ base, factor int64 }

// parseTemplate splits s into pieces: ${X}, ${X:-default}, ${8000+X}, ${8000+10*X}, $$ for a dollar
// sign; all else is literal, also a lone dollar sign. A default may hold $$, but no other
// reference.
//
// A sum begins with its number: in a shell ${X+8000} means something else, and ${8000+X} nothing.
func parseTemplate(s string) ([]piece, error) {
	var pieces []piece
	for s != "" {
		at := strings.IndexByte(s, '$')
		if at < 0 || at+1 == len(s) {
			return append(pieces, piece{text: s}), nil
		}
		switch s[at+1] {
		case '$':
			pieces = append(pieces, piece{text: s[:at+1]})
			s = s[at+2:]
		case '{':
			if at > 0 {
				pieces = append(pieces, piece{text: s[:at]})
			}
			end := strings.IndexByte(s[at:], '}')
			if end < 0 {
				return nil, fmt.Errorf(`%s is not closed by "}": write ${NAME}, or $${ for a dollar sign and a brace`,
					Quote(s[at:]))
			}
			p, err := parseReference(s[at : at+end+1])
			if err != nil {
				return nil, err
			}
			pieces = append(pieces, p)
			s = s[at+end+1:]
		default:
			pieces = append(pieces, piece{text: s[:at+1]})
			s = s[at+1:]
		}
	}
	return pieces, nil
}

// parseReference reads ${X}, ${X:-default} or a sum.
func parseReference(s string) (piece, error) {
	if p, ok := parseSum(s[2 : len(s)-1]); ok {
		return p, nil
	}
	name, fallback, hasFallback := strings.Cut(s[2:len(s)-1], ":-")
	if !isName(name) {
		return piece{}, fmt.Errorf("%s does not name a variable: write ${NAME}, ${NAME:-default} or ${8000+NAME} with letters, digits and _ in the name, or $${ for a dollar sign and a brace",
			Quote(s))
	}
	if strings.Contains(strings.ReplaceAll(fallback, "$$", ""), "${") {
		return piece{}, fmt.Errorf("the default of ${%s} holds another reference: write a plain default", name)
	}
	return piece{name: name, text: strings.ReplaceAll(fallback, "$$", "$"), hasFallback: hasFallback}, nil
}

// parseSum reads NUMBER+NAME or NUMBER+NUMBER*NAME. Numbers have 31 bits, so that the result fits
// into 64.
func parseSum(s string) (piece, bool) {
	first, rest, ok := strings.Cut(s, "+")
	base, err := strconv.ParseUint(first, 10, 31)
	if !ok || err != nil {
		return piece{}, false
	}
	factor := uint64(1)
	if times, name, ok := strings.Cut(rest, "*"); ok {
		if factor, err = strconv.ParseUint(times, 10, 31); err != nil {
			return piece{}, false
		}
		rest = name
	}
	return piece{name: rest, sum: &sum{int64(base), int64(factor)}}, isName(rest)
}

// of returns the sum for the value of a variable.
func (s *sum) of(name, value string) (string, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return "", fmt.Errorf("%s is %s, which is no integer to calculate with", name, Quote(value))
	}
	return strconv.FormatInt(s.base+s.factor*n, 10), nil
}

// WordsOf returns the variable that an argument of a command names as $NAME, with nothing else: the
// argument stands for the words of its value, which may be none.
func WordsOf(arg string) (name string, ok bool) {
	name, ok = strings.CutPrefix(arg, "$")
	return name, ok && isName(name)
}

func isName(s string) bool {
	return s != "" && !('0' <= s[0] && s[0] <= '9') &&
		strings.IndexFunc(s, func(r rune) bool { return r > 0x7f || !isNameByte(byte(r)) }) < 0
}

func isNameByte(c byte) bool { return isBare(c) && c != '-' }

// CheckTemplate returns an error if a reference in s is malformed.
func CheckTemplate(s string) error {
	_, err := parseTemplate(s)
	return err
}

// EscapeDollars returns the template that expands to s.
func EscapeDollars(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// Expand returns s with its references replaced. unset are the variables, sorted, that lookup does
// not know and that have no default. As in a shell, the default also replaces an empty value.
func Expand(s string, lookup func(name string) (string, bool)) (
	expanded string, unset []string, err error,
) {
	if strings.IndexByte(s, '$') < 0 && len(s) <= maxExpanded {
		return s, nil, nil
	}
	pieces, err := parseTemplate(s)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	for _, p := range pieces {
		text := p.text
		if p.name != "" {
			value, ok := lookup(p.name)
			switch {
			case p.hasFallback && value == "":
			case !ok:
				unset = append(unset, p.name)
			case p.sum != nil:
				if text, err = p.sum.of(p.name, value); err != nil {
					return "", nil, err
				}
			default:
				text = value
			}
		}
		if b.Len()+len(text) > maxExpanded {
			return "", nil, fmt.Errorf("is longer than %d bytes once expanded, which no exec allows", maxExpanded)
		}
		b.WriteString(text)
	}
	slices.Sort(unset)
	return b.String(), slices.Compact(unset), nil
}

// References returns the variables that s refers to, and those of them without a default. s must
// have passed [CheckTemplate].
func References(s string) (all, needed []string) {
	pieces, _ := parseTemplate(s)
	for _, p := range pieces {
		if p.name == "" {
			continue
		}
		all = append(all, p.name)
		if !p.hasFallback {
			needed = append(needed, p.name)
		}
	}
	return all, needed
}
