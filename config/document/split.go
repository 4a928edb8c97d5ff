package document

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// SplitCommand splits s into arguments as a shell would: at blanks and ends of lines, with '…', "…"
// and backslashes, without expansion or comments. The arguments are templates for [Expand]: ${…}
// outside single quotes stays in one argument, $NAME as a word of its own outside quotes is one
// that [WordsOf] knows, and any other dollar sign that is literal by the shell's rules is doubled.
//
// unquoted is the first text that a shell would have interpreted, such as "|" or "x$HOME", or "".
//
// The libraries for this fall short: google/shlex takes # for a comment and drops every backslash
// within double quotes, mattn/go-shellwords makes a newline of \n and ends at |, mvdan.cc/sh is a
// whole shell. None keeps ${…} in one piece or reports what stood outside quotes.
//
// Source: POSIX.1-2017, Shell Command Language, 2.2 Quoting.
func SplitCommand(s string) (args []string, unquoted string, err error) {
	split := splitter{templates: true}
	args, err = split.split(s)
	return args, split.unquoted, err
}

// SplitWords splits s as [SplitCommand] does, but dollar signs are literal.
func SplitWords(s string) ([]string, error) {
	var split splitter
	return split.split(s)
}

// A splitter splits one string into words.
type splitter struct {
	templates bool // the words are templates
	word      strings.Builder
	unquoted  string // first text outside quotes that a shell would have interpreted
}

func (p *splitter) split(s string) (words []string, err error) {
	inWord := false
	for i := 0; i < len(s); {
		rest := s[i:]
		switch c := rest[0]; {
		case isSpace(c):
			if inWord {
				words = append(words, p.word.String())
				p.word.Reset()
				inWord = false
			}
			i++
			continue
		case c == '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return nil, fmt.Errorf("the single quote at byte %d is not closed", i+1)
			}
			p.literal(rest[1 : 1+end])
			i += end + 2
		case c == '"':
			n, err := p.doubleQuoted(rest)
			if err != nil {
				return nil, fmt.Errorf("the double quote at byte %d is not closed", i+1)
			}
			i += n
		case c == '\\':
			if len(rest) == 1 {
				return nil, fmt.Errorf("nothing follows the backslash at the end")
			}
			_, size := utf8.DecodeRuneInString(rest[1:])
			i += 1 + size
			if rest[1] == '\n' { // a continued line
				continue
			}
			p.literal(rest[1 : 1+size])
		case c == '$' && p.templates:
			variable := shellVariable(rest)
			_, isWord := WordsOf(variable)
			if end := len(variable); isWord && !inWord && (end == len(rest) || isSpace(rest[end])) {
				p.word.WriteString(variable)
				i += end
				break
			}
			if variable != "" {
				p.note(variable)
			}
			i += p.reference(rest)
		default:
			if strings.IndexByte("|&;<>()`*", c) >= 0 || (c == '#' || c == '~') && !inWord {
				p.note(rest[:1])
			}
			p.word.WriteByte(c)
			i++
		}
		inWord = true
	}
	if inWord {
		words = append(words, p.word.String())
	}
	return words, nil
}

func (p *splitter) note(unquoted string) {
	if p.unquoted == "" {
		p.unquoted = unquoted
	}
}

// literal writes text that is no reference.
func (p *splitter) literal(text string) {
	if p.templates {
		text = EscapeDollars(text)
	}
	p.word.WriteString(text)
}

// doubleQuoted writes the text of the "…" at the beginning of s, and returns its length with
// quotes.
func (p *splitter) doubleQuoted(s string) (int, error) {
	for i := 1; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0:
			if s[i+1] != '\n' {
				p.literal(s[i+1 : i+2])
			}
			i += 2
		case c == '$' && p.templates:
			i += p.reference(s[i:])
		default:
			p.word.WriteByte(c)
			i++
		}
	}
	return 0, fmt.Errorf("not closed")
}

// reference writes the reference or dollar sign at the beginning of s, and returns its length. It
// doubles a lone dollar sign, so that it does not form a reference with what follows once the
// quotes are removed.
func (p *splitter) reference(s string) int {
	reference := leadingReference(s)
	if reference == "$" && !strings.HasPrefix(s, "${") {
		p.word.WriteString("$$")
		return 1
	}
	p.word.WriteString(reference)
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

// shellVariable returns the $NAME or "$(" at the beginning of s, which begins with a dollar sign;
// "" if neither is there.
func shellVariable(s string) string {
	if strings.HasPrefix(s, "$(") {
		return "$("
	}
	end := 1
	for end < len(s) && isNameByte(s[end]) {
		end++
	}
	if end == 1 {
		return ""
	}
	return s[:end]
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\r\n", c) >= 0 }
