package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A KeyError is one mistake at one position in a file.
type KeyError struct {
	File   string // as it was opened
	Key    string // dotted, such as program.web.stop_timeout; "" if none, as in a syntax error
	Line   int    // counted from 1; 0 for the file as a whole
	Column int    // in bytes, counted from 1
	Err    error  // cause, with the refused value and the remedy
}

// Error returns "file:line:column: key: cause" without the parts that are unknown.
func (e *KeyError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.Position() + ": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key + ": ")
	}
	return b.String() + e.Err.Error()
}

// Position returns "file:line:column", or only the file if the mistake concerns it as a whole.
func (e *KeyError) Position() string {
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

// Errors are mistakes sorted by position. As an error they print one a line.
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

// Sorted returns e sorted by position, files in the given order, without duplicates.
func (e Errors) Sorted(files []string) Errors {
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
