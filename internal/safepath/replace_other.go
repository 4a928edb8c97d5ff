//go:build !linux

package safepath

import (
	"errors"
	"io/fs"
)

// Replace replaces the content of a file: on Linux only.
func Replace(path string, _ []byte) error {
	return &fs.PathError{Op: "replace", Path: path, Err: errors.ErrUnsupported}
}
