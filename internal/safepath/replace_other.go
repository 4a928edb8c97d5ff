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

// WriteFile writes a file at once: on Linux only.
func WriteFile(path string, _ []byte, _ fs.FileMode) error {
	return &fs.PathError{Op: "write", Path: path, Err: errors.ErrUnsupported}
}

// RemoveFile removes a file durably: on Linux only.
func RemoveFile(path string) error {
	return &fs.PathError{Op: "remove", Path: path, Err: errors.ErrUnsupported}
}
