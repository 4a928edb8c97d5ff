package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A KeyError is one mistake at one place of a file.
type KeyError struct {
	File   string // as it was opened
	Key    string // dotted: program.web.stop_timeout; "" where there is none, as in a syntax error
	Line   int    // counted from 1; 0 when the file as a whole is meant
	Column int    // in bytes, counted from 1
	Err    error  // the cause with the value refused and the remedy
}

// Error returns "file:line:column: key: cause" without the parts that are not known.
func (e *KeyError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.place() + ": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	return b.String() + e.Err.Error()
}

func (e *KeyError) place() string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
}

func (e *KeyError) Unwrap() error { return e.Err }

// MarshalJSON returns an object with file, line, column, key and message.
func (e *KeyError) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Key     string `json:"key"`
		Message string `json:"message"`
	}{e.File, e.Line, e.Column, e.Key, e.Err.Error()})
}

// Errors are mistakes sorted by place. As an error they read one a line.
type Errors []*KeyError

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, mistake := range e {
		lines[i] = mistake.Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, mistake := range e {
		errs[i] = mistake
	}
	return errs
}

// sorted returns e by place, the files in the order given, each mistake once.
func (e Errors) sorted(files []string) Errors {
	rank := make(map[string]int, len(files))
	for i, file := range files {
		rank[file] = i - len(files)
	}
	e = slices.Clone(e)
	slices.SortStableFunc(e, func(a, b *KeyError) int {
		return cmp.Or(
			cmp.Compare(rank[a.File], rank[b.File]), strings.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Key, b.Key), strings.Compare(a.Err.Error(), b.Err.Error()))
	})
	return slices.CompactFunc(e, func(a, b *KeyError) bool {
		return a == b || a.Line == b.Line && a.Error() == b.Error()
	})
}

// dotted returns the key as one would write it in TOML.
func dotted(parts []string) string {
	quoted := make([]string, len(parts))
	for i, part := range parts {
		quoted[i] = part
		if part == "" || strings.IndexFunc(part, func(r rune) bool { return r > 0x7f || !isBare(byte(r)) }) >= 0 {
			quoted[i] = strconv.Quote(part)
		}
	}
	return strings.Join(quoted, ".")
}

// oneOf returns "a", "a or b", "a, b or c".
func oneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
