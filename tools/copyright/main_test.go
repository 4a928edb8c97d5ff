package main

import (
	"io"
	"testing"
)

// TestRun: the licence and the owner of each module that superd links are known.
func TestRun(t *testing.T) {
	if err := run(io.Discard, "../.."); err != nil {
		t.Error(err)
	}
}
