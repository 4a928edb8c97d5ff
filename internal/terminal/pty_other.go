//go:build !linux

package terminal

import (
	"errors"
	"io"
	"os"
)

// A Bridge is a new terminal for another session. There is none here.
type Bridge struct{ Terminal *os.File }

// OpenBridge returns an error.
func OpenBridge(*os.File) (*Bridge, error) { return nil, errors.New("open terminal: on Linux only") }

// Begin does nothing.
func (b *Bridge) Begin(io.Reader, io.Writer) error { return nil }

// Close does nothing.
func (b *Bridge) Close() {}
