//go:build !linux

package terminal

import "io"

// Keys delivers typed keys; on this system there are none.
type Keys struct{ C <-chan byte }

// OpenKeys returns false: keys are read on Linux only.
func OpenKeys(io.Reader) (*Keys, bool) { return nil, false }

// Resume returns false.
func (k *Keys) Resume() bool { return false }

// Close does nothing.
func (k *Keys) Close() {}
