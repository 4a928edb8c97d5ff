// Package terminal shows text to people: it fits tables to the width of the screen, gives names colours,
// and makes harmless what a program prints before a terminal gets to see it.
//
// It knows nothing of superd and keeps no state of its own.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// An Output tells what the place that text goes to can show.
type Output struct {
	Terminal bool // a person looks at it: text from elsewhere goes through [Sanitize] first
	Colour   bool
	Width    int // columns; 0: as wide as the text
	Height   int // lines; 0: as high as the text
}

// Detect finds out about w, which is a terminal only if it is a file. getenv is os.Getenv: there is no
// colour where NO_COLOR is set to anything (https://no-color.org) or TERM says that the terminal is dumb.
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

// Discards reports whether nobody sees what is written to w, since it is /dev/null.
func Discards(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	own, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(own, null)
}
