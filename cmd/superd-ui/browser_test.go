package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenBrowser: the file with the token is removed at the end, and when no browser can be
// started.
func TestOpenBrowser(t *testing.T) {
	for name, tt := range map[string]struct{ command, message string }{
		"a browser":        {"#!/bin/sh\nexit 0\n", ""},
		"no command":       {"", "there is no xdg-open"},
		"a broken browser": {"#!/none\n", "open a browser: "},
	} {
		bin, dir := t.TempDir(), t.TempDir()
		t.Setenv("PATH", bin)
		t.Setenv("XDG_RUNTIME_DIR", dir)
		if tt.command != "" {
			if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(tt.command), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		files := func() int {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			return len(entries)
		}
		var stderr bytes.Buffer
		remove := openBrowser(t.Context(), "http://127.0.0.1:9001/#token=secret", &stderr)
		if has := files(); (has == 1) != (tt.message == "") || !strings.Contains(stderr.String(), tt.message) {
			t.Errorf("%s: %d files, %q; want %q", name, has, stderr.String(), tt.message)
		}
		if remove(); files() > 0 || strings.Contains(stderr.String(), "secret") {
			t.Errorf("%s: at the end %d files, %q", name, files(), stderr.String())
		}
	}
}
