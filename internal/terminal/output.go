// Package terminal shows text to people: it fits tables to the width of the screen, colours names,
// and removes control sequences from program output before it reaches a terminal.
//
// It does not depend on superd and keeps no global state.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// An Output describes what the destination of text can show.
type Output struct {
	Terminal bool // a person reads it: text from elsewhere must pass [Sanitize] first
	Colour   bool
	Coloured bool // lines from elsewhere keep their colours: see [SanitizeColoured]
	Width    int  // columns; 0: no limit
	Height   int  // lines; 0: no limit
}

// Detect returns the properties of w, which is a terminal only if it is a file. getenv is
// os.Getenv: there is no colour if NO_COLOR is set to a non-empty value (https://no-color.org) or
// TERM is dumb.
func Detect(w io.Writer, getenv func(string) string) Output {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return Output{}
	}
	o := Output{Terminal: true, Colour: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
	if width, height, err := term.GetSize(int(f.Fd())); err == nil {
		o.Width, o.Height = width, height
	}
	return o
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Discards reports whether w is /dev/null.
func Discards(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	own, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(own, null)
}
