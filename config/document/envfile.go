package document

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ReadEnvFile reads a file of assignments, KEY=VALUE, in the format of EnvironmentFile= in systemd
// and /etc/default in Debian. The last assignment to a key counts. In a directory each file is a
// variable.
//
// Blank lines and lines that begin with # or ; are skipped. "export " before the key and blanks
// around key and value are allowed. A value that begins with a quote may span lines. In single
// quotes all is literal. In double quotes a backslash makes \" \\ \$ \` literal, joins lines, and
// stands for itself before any other character. More quoted parts may follow without a blank. In a
// value that does not begin with a quote, quotes and # are literal, and a backslash makes the next
// character literal or joins lines. Nothing is expanded.
//
// The error is [Errors] with file, line and column of each mistake, or one without a line if the
// file can't be read. These are mistakes, although systemd ignores them: a line without =, an
// impossible name, an unclosed quote, and text after quotes and a blank, which systemd would append
// to the value and a shell would execute. A comment may stand there.
//
// superd may read the file as root for a program that runs as another user. If other users can
// write a directory of the path, the file must be a regular file with one name, and not be reached
// through their links. So no user can make superd read a file to a program that only root may read.
// See package safepath.
//
// Source: man 5 systemd.exec, EnvironmentFile=.
func ReadEnvFile(path string) (map[string]string, error) {
	vars, mistakes := parseEnv(path, readEnvFile)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return vars, nil
}

// parseEnv reads an env file with read.
func parseEnv(path string, read reading) (map[string]string, Errors) {
	text, err := read(path)
	if err != nil {
		return nil, Errors{{File: path, Err: fmt.Errorf("read env file: %w", err)}}
	}
	return parseEnvFile(path, text)
}

// EnvSum returns a checksum of the variables of an env file, stable across processes. It is never
// 0.
func EnvSum(vars map[string]string) uint64 {
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		io.WriteString(sum, name+"="+vars[name]+"\x00")
	}
	return max(sum.Sum64(), 1)
}

// MissingSum stands for the [EnvSum] of a file that does not exist.
const MissingSum = 0

// CombinedSum returns a checksum of several env files from their sums, in their order: that of the
// file itself if there is one. It is 0 without files.
func CombinedSum(sums []uint64) uint64 {
	switch {
	case len(sums) == 0:
		return 0
	case len(sums) == 1 && sums[0] != MissingSum:
		return sums[0]
	}
	sum := fnv.New64a()
	for _, one := range sums {
		fmt.Fprintf(sum, "%x\n", one)
	}
	return max(sum.Sum64(), 1)
}

func parseEnvFile(path, text string) (map[string]string, Errors) {
	vars := map[string]string{}
	var errs Errors
	r := envReader{text: strings.TrimPrefix(text, byteOrderMark), line: 1}
	for r.at < len(r.text) {
		name, value, err := r.assignment()
		switch {
		case err != nil:
			errs = append(errs, &KeyError{File: path, Line: err.line, Column: err.column, Err: err.cause})
		case name != "":
			vars[name] = value
		}
	}
	return vars, errs
}

// An envReader reads the text of an env file.
type envReader struct {
	text  string
	at    int // offset of the next byte
	line  int // line of at, counted from 1
	begin int // offset at which that line begins
}

// An envMistake is a mistake at a position; line and column count from 1.
type envMistake struct {
	line, column int
	cause        error
}

func (r *envReader) mistake(format string, args ...any) *envMistake {
	return &envMistake{r.line, r.at - r.begin + 1, fmt.Errorf(format, args...)}
}

// assignment reads a line and the lines that continue its value. name is empty if the line has
// none. After a mistake the reader is at the next line.
func (r *envReader) assignment() (name, value string, err *envMistake) {
	defer r.skipLine()
	r.skipBlanks()
	line := trimBlanks(r.rest())
	if line == "" || line[0] == '#' || line[0] == ';' {
		return "", "", nil
	}
	if after, ok := strings.CutPrefix(line, "export"); ok && after != "" && isBlank(after[0]) {
		if after = trimBlanks(after); after[0] != '=' {
			r.at += len("export")
			r.skipBlanks()
			line = after
		}
	}
	name, _, ok := strings.Cut(line, "=")
	if !ok {
		return "",
			"", r.mistake(`%s has no "=": write KEY=VALUE, and # before a comment`, Quote(line))
	}
	length := len(name)
	name = trimBlanks(name)
	if wrong := CheckVariable(name); wrong != nil {
		return "", "", r.mistake("%w", wrong)
	}
	key := *r // position for messages
	r.at += length + len("=")
	r.skipBlanks()
	if value, err = r.value(); err != nil {
		return "", "", err
	}
	if strings.ContainsRune(value, 0) {
		return "", "", key.mistake("the value of %s contains a NUL byte", name)
	}
	return name, value, nil
}

// value reads a value to the end of its last line.
func (r *envReader) value() (string, *envMistake) {
	var b strings.Builder
	for r.at < len(r.text) && isQuote(r.text[r.at]) {
		if err := r.quoted(&b); err != nil {
			return "", err
		}
		if r.skipBlanks() {
			if rest := trimBlanks(r.rest()); rest != "" && rest[0] != '#' {
				return "", r.mistake("%s follows the closing quote: put all of the value in quotes",
					Quote(rest))
			}
			return b.String(), nil
		}
	}
	return b.String() + r.unquoted(), nil
}

// quoted reads a quoted text, which may span lines.
func (r *envReader) quoted(b *strings.Builder) *envMistake {
	opening := *r
	quote := r.next()
	for r.at < len(r.text) {
		c := r.next()
		switch {
		case c == quote:
			return nil
		case c == '\\' && quote == '"':
			if r.joins() {
				continue
			}
			if r.at < len(r.text) && strings.IndexByte("$`\"\\", r.text[r.at]) >= 0 {
				c = r.next()
			}
		}
		b.WriteByte(c)
	}
	*r = opening // lets the following lines be read
	return opening.mistake("the quote before %s is not closed: close it, or put \\ before it",
		Quote(trimBlanks(r.rest()[1:])))
}

// unquoted reads the rest of a line and the lines joined to it by a final backslash, without
// trailing blanks.
func (r *envReader) unquoted() string {
	var b strings.Builder
	ends := 0 // length of the value without trailing blanks
	for r.at < len(r.text) && r.text[r.at] != '\n' {
		c := r.next()
		literal := c == '\\'
		switch {
		case literal && (r.at == len(r.text) || r.joins()):
			continue
		case literal:
			c = r.next()
		}
		b.WriteByte(c)
		if literal || !isBlank(c) {
			ends = b.Len()
		}
	}
	return b.String()[:ends]
}

// joins reports whether the line ends here, and if so moves to the next line.
func (r *envReader) joins() bool {
	rest := r.text[r.at:]
	if !strings.HasPrefix(rest, "\n") && !strings.HasPrefix(rest, "\r\n") {
		return false
	}
	for r.next() != '\n' {
	}
	return true
}

// next returns the next byte, which must exist.
func (r *envReader) next() byte {
	c := r.text[r.at]
	r.at++
	if c == '\n' {
		r.line++
		r.begin = r.at
	}
	return c
}

// rest returns the rest of the line.
func (r *envReader) rest() string {
	line, _, _ := strings.Cut(r.text[r.at:], "\n")
	return line
}

// skipBlanks skips blanks, and reports whether there were any or the line ends.
func (r *envReader) skipBlanks() bool {
	before := r.at
	for r.at < len(r.text) && isBlank(r.text[r.at]) {
		r.at++
	}
	return r.at > before || r.at == len(r.text) || r.text[r.at] == '\n'
}

// skipLine moves to the next line.
func (r *envReader) skipLine() {
	for r.at < len(r.text) && r.next() != '\n' {
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

func trimBlanks(s string) string { return strings.Trim(s, " \t\r") }

func isQuote(c byte) bool { return c == '"' || c == '\'' }

// CheckVariable returns an error for a name that no environment variable can have, or that is
// surely a slip.
func CheckVariable(name string) error {
	odd := func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || strings.ContainsRune("='\"$", r)
	}
	switch {
	case name == "":
		return errors.New("a variable needs a name: write KEY=VALUE")
	case strings.ContainsFunc(name, odd) || !utf8.ValidString(name):
		return fmt.Errorf("%s is not the name of a variable: use letters, digits and _",
			Quote(name))
	}
	return nil
}
