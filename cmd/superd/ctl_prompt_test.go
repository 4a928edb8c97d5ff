package main

import (
	"strings"
	"testing"
)

// TestReadsKeys: a command that reads keys is known however it is written.
func TestReadsKeys(t *testing.T) {
	for line, want := range map[string]bool{
		"superd ctl exec web":   true,
		"ctl edit":              true,
		"attach web":            true,
		"shell web":             true,
		"status -w":             true,
		"status --watch=true":   true,
		"status --watch web":    true,
		"status --watch=false":  false,
		"status web":            false,
		"exec --help":           false,
		"status --wait-longest": false,
	} {
		if got := readsKeys(stripped(strings.Fields(line))); got != want {
			t.Errorf("readsKeys(%q) = %v, want %v", line, got, want)
		}
	}
}
