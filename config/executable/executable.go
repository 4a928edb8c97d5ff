// Package executable checks that a machine has the files that a program needs to start: its
// directory and its executable. A configuration may be checked on another machine than its own, so
// what is missing is a warning.
package executable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"superd/config/codec"
	"superd/config/document"
)

// A Need is what a program needs of the file system.
type Need struct {
	Command   []string
	Directory string
	Root      string // sandbox.root_directory; "": none
	Search    string // its PATH; "": not known
	// At returns the value of a key of the program, to report a mistake at its place
	At   func(key string) codec.Value
	Stat func(path string) (fs.FileInfo, error)
}

// Check warns of a missing directory or executable. Paths with ${X} are unknown before the start,
// and are skipped.
func (n Need) Check() {
	if len(n.Command) == 0 || strings.Contains(n.Directory, "$") {
		return
	}
	if n.Root != "" {
		if _, err := n.Stat(n.Root); errors.Is(err, fs.ErrNotExist) {
			n.At("sandbox.root_directory").Warn("no directory %s on this machine: make it, or write another one", n.Root)
		}
		return // the other paths are below it
	}
	switch info, err := n.Stat(n.Directory); {
	case errors.Is(err, fs.ErrNotExist):
		n.At("directory").Warn("no directory %s on this machine: make it, or write another one", n.Directory)
	case err == nil && !info.IsDir():
		n.At("directory").Warn("%s is not a directory: write another one", n.Directory)
	}
	name := n.Command[0]
	switch {
	case strings.Contains(name, "$"):
	case strings.Contains(name, "/"):
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(n.Directory, path)
		}
		switch info, err := n.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			n.At("command").Warn("no executable %s on this machine: %s", path, SplitRemedy(n.Command, "install it, or correct the path"))
		case err == nil && info.IsDir():
			n.At("command").Warn("%s is a directory: name the executable in it", path)
		case err == nil && info.Mode()&0o111 == 0:
			n.At("command").Warn("%s is not executable: try chmod +x", path)
		}
	default:
		n.checkSearch(name)
	}
}

// SplitRemedy returns a remedy for a command whose executable does not exist. It proposes to split
// the arguments if all of them are in the first string of an array, else it returns otherwise.
func SplitRemedy(command []string, otherwise string) string {
	if len(command) != 1 {
		return otherwise
	}
	args, unquoted, err := document.SplitCommand(command[0])
	if err != nil || unquoted != "" || len(args) < 2 {
		return otherwise
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = strconv.Quote(arg)
	}
	return fmt.Sprintf("split it, write [%s], or %s without the brackets", strings.Join(quoted, ", "), strconv.Quote(command[0]))
}

// checkSearch warns of an executable that is missing from the program's PATH.
func (n Need) checkSearch(name string) {
	if n.Search == "" || strings.Contains(n.Search, "$") {
		return // not known before the start
	}
	for _, directory := range filepath.SplitList(n.Search) {
		if info, err := n.Stat(filepath.Join(directory, name)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return
		}
	}
	remedy := SplitRemedy(n.Command, "install it, or write its path")
	n.At("command").Warn("no executable %q in PATH %s on this machine: %s", name, n.Search, remedy)
}
