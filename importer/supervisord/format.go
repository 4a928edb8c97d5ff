package supervisord

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A value is what a name in %(name)s stands for.
type value struct {
	text     string
	number   int
	isNumber bool
	symbolic bool // written as a reference, see [reference]
}

func text(s string) value   { return value{text: s} }
func number(n int) value    { return value{text: strconv.Itoa(n), number: n, isNumber: true} }
func symbol(s string) value { return value{text: s, symbolic: true} }

// References stand in expanded text between these private characters, until they are written as
// templates of superd.
const (
	refBegin = '\uE000'
	refEnd   = '\uE001'
)

// reference returns the reference to a variable; width is the number of digits of a number that is
// filled with zeros.
func reference(name string, width int) string {
	return string(refBegin) + name + ":" + strconv.Itoa(width) + string(refEnd)
}

// An unknownName is a name that supervisord can't expand.
type unknownName string

func (e unknownName) Error() string {
	return fmt.Sprintf("contains the name %q, which cannot be expanded", string(e))
}

var errBadFormat = errors.New(`is badly formatted: a "%" of its own is written "%%"`)

// format is the operator % of Python with a dictionary on its right.
func format(s string, names func(string) (value, bool)) (string, error) {
	var b strings.Builder
	for {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:at])
		rest, err := conversion(s[at+1:], names, &b)
		if err != nil {
			return "", err
		}
		s = rest
	}
}

// conversion writes one conversion, of which s is what follows the "%", and returns the rest.
func conversion(s string, names func(string) (value, bool), b *strings.Builder) (rest string, err error) {
	if strings.HasPrefix(s, "%") {
		b.WriteByte('%')
		return s[1:], nil
	}
	var v value
	named := false
	if strings.HasPrefix(s, "(") {
		end, depth := -1, 0
		for i := range len(s) {
			if s[i] == '(' {
				depth++
			}
			if s[i] == ')' {
				if depth--; depth == 0 {
					end = i
					break
				}
			}
		}
		if end < 0 {
			return "", errBadFormat
		}
		if v, named = names(s[1:end]); !named {
			return "", unknownName(s[1:end])
		}
		s = s[end+1:]
	}
	flags := s[:len(s)-len(strings.TrimLeft(s, "#0- +"))]
	s = s[len(flags):]
	width, s := digits(s)
	precision := -1
	if strings.HasPrefix(s, ".") {
		precision, s = digits(s[1:])
		precision = max(precision, 0)
	}
	if s != "" && strings.IndexByte("hlL", s[0]) >= 0 {
		s = s[1:]
	}
	if s == "" || width > maxPad || precision > maxPad {
		return "", errBadFormat
	}
	verb := s[0]
	s = s[1:]
	if !named {
		return "", errBadFormat // a dictionary has no value without a name, except with %s
	}
	if v.symbolic {
		return s, writeSymbol(b, v.text, verb, flags, width)
	}
	verbs := map[byte]string{'d': "d", 'i': "d", 'u': "d", 'x': "x", 'X': "X", 'o': "o", 's': "s"}
	goVerb, known := verbs[verb]
	if !known || goVerb != "s" && !v.isNumber {
		return "", errBadFormat
	}
	pattern := "%"
	switch {
	case goVerb == "s":
		pattern += strings.Map(only('-'), flags)
	case strings.Contains(flags, "-"):
		pattern += strings.Map(only('-', '+', ' '), flags)
	default:
		pattern += strings.Map(only('0', '+', ' '), flags)
	}
	if width > 0 {
		pattern += strconv.Itoa(width)
	}
	if precision >= 0 {
		pattern += "." + strconv.Itoa(precision)
	}
	if goVerb == "s" {
		fmt.Fprintf(b, pattern+"s", v.text)
	} else {
		fmt.Fprintf(b, pattern+goVerb, v.number)
	}
	return s, nil
}

// maxPad bounds what a width may add.
const maxPad = 4096

func only(allowed ...rune) func(rune) rune {
	return func(r rune) rune {
		for _, a := range allowed {
			if r == a {
				return r
			}
		}
		return -1
	}
}

func digits(s string) (n int, rest string) {
	end := 0
	for end < len(s) && '0' <= s[end] && s[end] <= '9' {
		end++
	}
	if end == 0 {
		return 0, s
	}
	n, err := strconv.Atoi(s[:end])
	if err != nil {
		return maxPad + 1, s[end:]
	}
	return n, s[end:]
}

// processNum is the name of the number of a process.
const processNum = "process_num"

// errConcrete means that superd has no notation for a reference: the value must take its place.
var errConcrete = errors.New("cannot be written as a variable")

func writeSymbol(b *strings.Builder, name string, verb byte, flags string, width int) error {
	switch {
	case name == processNum && strings.IndexByte("diu", verb) >= 0 && (flags == "0" || flags == "" && width == 0):
		b.WriteString(reference(name, width))
	case name == processNum && verb == 's' && flags == "" && width == 0:
		b.WriteString(reference(name, 0))
	case name != processNum && verb == 's' && width == 0:
		b.WriteString(reference(name, 0))
	default:
		return errConcrete
	}
	return nil
}
