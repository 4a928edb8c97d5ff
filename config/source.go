package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"superd/account"
	"superd/privilege"
)

// maxFileBytes bounds what is read of one file: enough for 10,000 programs, and /dev/zero ends, too.
const maxFileBytes = 16 << 20

// A host is where configuration comes from: the machine, or a test.
type host struct {
	read    func(path string) (string, error)
	glob    func(pattern string) ([]string, error)
	environ []string // this process's environment
	abs     func(path string) (string, error)

	stat     func(path string) (fs.FileInfo, error) // nil: the programs' files are not looked at
	accounts account.Files
	setLimit func(resource int, value int64) error // why a limit can't be set, nil where it can
}

func machine() host {
	return host{
		read: readFile, glob: filepath.Glob, environ: os.Environ(), abs: filepath.Abs,
		accounts: account.System(), setLimit: privilege.SetLimit,
	}
}

// telling returns a host that tells what it is about to look at.
func (h host) telling(reading func(path string)) host {
	read, glob := h.read, h.glob
	h.read = func(path string) (string, error) { reading(path); return read(path) }
	h.glob = func(pattern string) ([]string, error) { reading(pattern); return glob(pattern) }
	return h
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", withoutPath(err)
	}
	if len(data) > maxFileBytes {
		return "", fmt.Errorf("larger than %d MiB", maxFileBytes>>20)
	}
	return string(data), nil
}

// withoutPath returns the cause alone: the place of the error names the path already.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// A source is one file of TOML, parsed.
type source struct {
	name  string // as it was opened
	dir   string // absolute: relative paths of this file begin there
	text  string
	lines lineIndex
	root  *node
	table map[string]any
}

// parse returns the source, or the mistake that keeps it from being read as TOML.
func parse(name, dir, data string) (*source, *KeyError) {
	// Columns don't count a byte order mark: no editor does.
	text := strings.TrimPrefix(data, "\ufeff")
	s := &source{name: name, dir: dir, text: text, lines: indexLines(text)}
	var tooDeep int
	if s.root, tooDeep = locate(text); tooDeep >= 0 {
		return nil, s.mistake(tooDeep, fmt.Errorf("tables and arrays are nested more than %d deep", maxDepth))
	}
	_, err := toml.Decode(text, &s.table)
	if parseErr, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, s.mistake(parseErr.Position.Start, fmt.Errorf("syntax error: %s", syntaxMessage(parseErr.Message)))
	}
	if err != nil {
		return nil, s.mistake(0, fmt.Errorf("syntax error: %w", err))
	}
	return s, nil
}

func (s *source) mistake(offset int, err error) *KeyError {
	line, column := s.lines.place(min(max(offset, 0), len(s.text)))
	return &KeyError{File: s.name, Line: line, Column: column, Err: err}
}

// path makes a path of this file absolute.
func (s *source) path(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(s.dir, path)
}

// syntaxMessage puts a message of the TOML decoder into the form of ours.
func syntaxMessage(s string) string {
	s = strings.TrimSuffix(s, ".")
	switch {
	case strings.HasPrefix(s, "expected value but found"):
		s += ": put text in quotes"
	case strings.HasSuffix(s, "to end table name, but got ':' instead"):
		s += ": write [program.NAME]"
	}
	if first, size := utf8.DecodeRuneInString(s); !strings.HasPrefix(s, "TOML") {
		s = string(unicode.ToLower(first)) + s[size:]
	}
	return printable(s)
}

// printable returns s with all that could disturb a terminal written as an escape.
func printable(s string) string {
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
