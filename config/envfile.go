package config

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

// ReadEnvFile reads lines of the form KEY=VALUE; blank lines and those that begin with # are skipped, "export " before
// the key is allowed, and of two lines with one key the later one counts.
//
// A value goes to the end of its line without the blanks around it, and a # belongs to it; or it stands in single
// quotes, within which everything is literal, or in double quotes, within which \" \\ \$ and \` lose their backslash as
// in a shell. Nothing is expanded. The error is [Errors] with file and line of each broken line, or one without a line
// where the file can't be read.
func ReadEnvFile(path string) (map[string]string, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{{File: path, Err: fmt.Errorf("read env file: %w", err)}}
	}
	vars, errs := parseEnvFile(path, data)
	if len(errs) > 0 {
		return nil, errs
	}
	return vars, nil
}

// EnvSum returns a number that tells the variables of an env file from others, also to another superd. It is not 0.
func EnvSum(vars map[string]string) uint64 {
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		io.WriteString(sum, name+"="+vars[name]+"\x00")
	}
	return max(sum.Sum64(), 1)
}

func parseEnvFile(path, text string) (map[string]string, Errors) {
	vars := map[string]string{}
	var errs Errors
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if name, value, err := parseEnvLine(line); err != nil {
			errs = append(errs, &KeyError{File: path, Line: i + 1, Column: 1, Err: err})
		} else {
			vars[name] = value
		}
	}
	return vars, errs
}

func parseEnvLine(line string) (name, value string, err error) {
	if rest, ok := strings.CutPrefix(line, "export"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		line = strings.TrimSpace(rest)
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return "", "", fmt.Errorf(`%s has no "=": write KEY=VALUE, and # before a comment`, shorten(line))
	}
	if err := checkVariable(name); err != nil {
		return "", "", err
	}
	value = strings.TrimSpace(value)
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		value, err = unquoteEnv(value)
	}
	if err == nil && strings.ContainsRune(value, 0) {
		err = fmt.Errorf("the value of %s contains a NUL byte", name)
	}
	return name, value, err
}

// unquoteEnv returns what the quotes at the beginning of s hold; nothing but a comment may follow them.
func unquoteEnv(s string) (string, error) {
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			if after := strings.TrimSpace(s[i+1:]); after != "" && after[0] != '#' {
				return "", fmt.Errorf("%s follows the closing quote: put all of the value in quotes", shorten(after))
			}
			return b.String(), nil
		case s[i] == '\\' && quote == '"' && i+1 < len(s) && strings.IndexByte("$`\"\\", s[i+1]) >= 0:
			i++
		}
		b.WriteByte(s[i])
	}
	return "", fmt.Errorf("the quote before %s is not closed on its line", shorten(s[1:]))
}

// checkVariable refuses what no environment variable can be called, and what surely is a slip.
func checkVariable(name string) error {
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || strings.ContainsRune("= '\"$", r) }
	switch {
	case name == "":
		return errors.New("a variable needs a name: write KEY=VALUE")
	case strings.ContainsFunc(name, odd) || !utf8.ValidString(name):
		return fmt.Errorf("%s is not the name of a variable: use letters, digits and _", shorten(name))
	}
	return nil
}
