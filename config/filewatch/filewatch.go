// Package filewatch has the settings of programs that are restarted when files change: the table
// watch of a program.
package filewatch

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"superd/config/codec"
	"superd/config/document"
)

// Settings say which files of a program are watched, and what a change leads to.
type Settings struct {
	Paths    []string       // absolute files and directories
	Ignore   []string       // patterns as in .gitignore, below each path
	Debounce time.Duration  // without a further change before something happens
	Signal   syscall.Signal // that a running program gets; 0: it is restarted
}

// Default are the settings of an empty table. Its paths are the directory of the program.
func Default() Settings { return Settings{Debounce: 200 * time.Millisecond} }

// Pattern reads a pattern as in .gitignore.
var Pattern = codec.Text("pattern", `a pattern such as "*.log"`, func(s string) (string, error) {
	switch {
	case strings.TrimSpace(s) == "" || strings.Trim(s, "!/") == "":
		return "", errors.New(`names no file: write a pattern such as "*.log", "/dist/" or "!keep.log"`)
	case strings.ContainsAny(s, "\n\x00"):
		return "", fmt.Errorf("%s is more than one pattern: write an array", document.Quote(s))
	}
	return s, nil
}, codec.QuoteSet)
