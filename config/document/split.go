package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SplitCommand splits s into arguments as a shell would: at blanks and ends of lines, with '…', "…"
// and backslashes, without expansion or comments. The arguments are templates for [Expand]: ${…}
// outside single quotes stays in one argument, and a dollar sign that is literal by the shell's
// rules is doubled.
//
// unquoted is the first text that a shell would have interpreted, such as "|" or "$HOME", or "".
//
// The libraries for this fall short: google/shlex takes # for a comment and drops every backslash
// within double quotes, mattn/go-shellwords makes a newline of \n and ends at |, mvdan.cc/sh is a
// whole shell. None keeps ${…} in one piece or reports what stood outside quotes.
//
// Source: POSIX.1-2017, Shell Command Language, 2.2 Quoting.
func SplitCommand(s string) (args []string, unquoted string, err error) {
	var arg strings.Builder
	inArg := false
	note := func(what string) {
		if unquoted == "" {
			unquoted = what
		}
	}
	for i := 0; i < len(s); {
		rest := s[i:]
		switch c := rest[0]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			if inArg {
				args = append(args, arg.String())
				arg.Reset()
				inArg = false
			}
			i++
			continue
		case c == '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return nil, "", fmt.Errorf("the single quote at byte %d is not closed", i+1)
			}
			arg.WriteString(EscapeDollars(rest[1 : 1+end]))
			i += end + 2
		case c == '"':
			n, err := splitDoubleQuoted(&arg, rest)
			if err != nil {
				return nil, "", fmt.Errorf("the double quote at byte %d is not closed", i+1)
			}
			i += n
		case c == '\\':
			if len(rest) == 1 {
				return nil, "", fmt.Errorf("nothing follows the backslash at the end")
			}
			_, size := utf8.DecodeRuneInString(rest[1:])
			i += 1 + size
			if rest[1] == '\n' { // a continued line
				continue
			}
			arg.WriteString(EscapeDollars(rest[1 : 1+size]))
		case c == '$':
			if reference := leadingReference(rest); reference == "$" && len(rest) > 1 && (isNameByte(rest[1]) || rest[1] == '(') {
				note(shellVariable(rest))
			}
			i += writeReference(&arg, rest)
		default:
			if strings.IndexByte("|&;<>()`*", c) >= 0 || (c == '#' || c == '~') && !inArg {
				note(rest[:1])
			}
			arg.WriteByte(c)
			i++
		}
		inArg = true
	}
	if inArg {
		args = append(args, arg.String())
	}
	return args, unquoted, nil
}

// splitDoubleQuoted writes to arg the text of the "…" at the beginning of s, and returns its length
// with quotes.
func splitDoubleQuoted(arg *strings.Builder, s string) (int, error) {
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0:
			if s[i+1] != '\n' {
				arg.WriteString(EscapeDollars(s[i+1 : i+2]))
			}
			i += 2
		case c == '$':
			i += writeReference(arg, s[i:])
		default:
			arg.WriteByte(c)
			i++
		}
	}
	return 0, fmt.Errorf("not closed")
}

// writeReference writes to arg the reference or dollar sign at the beginning of s, and returns its
// length. It doubles a lone dollar sign, so that it does not form a reference with what follows
// once the quotes are removed.
func writeReference(arg *strings.Builder, s string) int {
	reference := leadingReference(s)
	if reference == "$" && !strings.HasPrefix(s, "${") {
		arg.WriteString("$$")
		return 1
	}
	arg.WriteString(reference)
	return len(reference)
}

// leadingReference returns the ${…} or $$ at the beginning of s, else "$".
func leadingReference(s string) string {
	switch {
	case strings.HasPrefix(s, "$$"):
		return "$$"
	case strings.HasPrefix(s, "${"):
		if end := strings.IndexByte(s, '}'); end > 0 {
			return s[:end+1]
		}
	}
	return "$"
}

// shellVariable returns the $NAME or "$(" at the beginning of s.
func shellVariable(s string) string {
	if s[1] == '(' {
		return "$("
	}
	end := 1
	for end < len(s) && isNameByte(s[end]) {
		end++
	}
	return s[:end]
}
