// Package document reads the text of a configuration: TOML with the position of each key and value,
// included files, ${X} within strings, env files, and an archive of all of these.
//
// It knows the syntax but no keys; package config defines keys and their meaning. It must not run
// on the loop's goroutine, since reading a file may block on its file system.
package document

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// A Document is one parsed TOML file.
type Document struct {
	Name string // as it was opened
	Dir  string // absolute; base of the relative paths in this file

	text  string
	lines lineIndex
	root  *node
	table map[string]any
}

// byteOrderMark is the byte order mark that some editors write at the start of a file.
const byteOrderMark = "\ufeff"

// Parse returns the document of that name, or the mistake for which it can't be read as TOML.
func Parse(name, text string) (*Document, *KeyError) { return parse(name, filepath.Dir(name), text) }

// parse returns the document, or the mistake for which it can't be read as TOML.
func parse(name, dir, data string) (*Document, *KeyError) {
	// Columns don't count a byte order mark, as in editors.
	text := strings.TrimPrefix(data, byteOrderMark)
	d := &Document{Name: name, Dir: dir, text: text, lines: indexLines(text)}
	var tooDeep int
	if d.root, tooDeep = locate(text); tooDeep >= 0 {
		return nil, d.mistake(tooDeep, fmt.Errorf("tables and arrays are nested more than %d deep",
			maxDepth))
	}
	_, err := toml.Decode(text, &d.table)
	if parseErr, ok := errors.AsType[toml.ParseError](err); ok {
		return nil, d.mistake(parseErr.Position.Start, fmt.Errorf("syntax error: %s",
			syntaxMessage(parseErr.Message)))
	}
	if err != nil {
		return nil, d.mistake(0, fmt.Errorf("syntax error: %w", err))
	}
	return d, nil
}

func (d *Document) mistake(offset int, err error) *KeyError {
	line, column := d.lines.position(min(max(offset, 0), len(d.text)))
	return &KeyError{File: d.Name, Line: line, Column: column, Err: err}
}

// Path returns path as an absolute path; relative paths begin at the directory of d.
func (d *Document) Path(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(d.Dir, path)
}

// syntaxMessage rewrites a message of the TOML decoder in superd's form.
func syntaxMessage(s string) string {
	s = strings.TrimSuffix(s, ".")
	switch {
	case strings.HasPrefix(s, "expected value but found"):
		s += ": put text in quotes"
	case strings.HasSuffix(s, "to end table name, but got ':' instead"):
		s += ": write [program.NAME]"
	}
	if number, ok := strings.CutSuffix(s, " is out of range for int64"); ok {
		s = number + " is too large for an integer, which has 64 bits"
	}
	if number, ok := strings.CutSuffix(s, " is out of range for float64"); ok {
		s = number + " is too large for a number, which has 64 bits"
	}
	if first, size := utf8.DecodeRuneInString(s); !strings.HasPrefix(s, "TOML") {
		s = string(unicode.ToLower(first)) + s[size:]
	}
	return Printable(s)
}
