// Package report prints the results of commands: as tables, as lines, or as JSON, from this host or
// from several.
package report

import (
	"fmt"
	"io"
	"os"
	"strings"

	"superd/internal/escape"
	"superd/internal/terminal"
)

// Table prints a table that fits the terminal.
func Table(w io.Writer, t *terminal.Table) error {
	if host, ok := w.(*Host); ok {
		host.table = t
		return nil
	}
	_, err := w.Write(t.Text(terminal.Detect(w, os.Getenv)))
	return err
}

// JSON prints a JSON array, one value on each line so that it is readable.
func JSON[T any](w io.Writer, all []T) error {
	if host, ok := w.(*Host); ok {
		for _, v := range all {
			host.values = append(host.values, v)
		}
		return nil
	}
	out := []byte("[")
	for i, v := range all {
		if i > 0 {
			out = append(out, ',')
		}
		line, err := escape.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode JSON: %w", err)
		}
		out = append(append(out, '\n'), line...)
	}
	if len(all) > 0 {
		out = append(out, '\n')
	}
	_, err := w.Write(append(out, "]\n"...))
	return err
}

// Object prints a value as one line of JSON.
func Object(w io.Writer, v any) error {
	if host, ok := w.(*Host); ok {
		host.values = append(host.values, v)
		return nil
	}
	line, err := escape.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode JSON: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// OneLine returns a text of several lines as one, sanitized for a terminal.
func OneLine(text string) string { return terminal.Sanitize(strings.ReplaceAll(text, "\n", "; ")) }
