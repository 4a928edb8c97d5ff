package linux

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestLoaderOf(t *testing.T) {
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sleep := read("/bin/sleep")
	head := func(b []byte) []byte { return b[:min(len(b), 256)] }
	got := loaderOf(bytes.NewReader(sleep), head(sleep))
	if !strings.Contains(got, "/ld-") {
		t.Skipf("/bin/sleep has the loader %q", got)
	}
	if _, err := os.Stat(got); err != nil {
		t.Errorf("loaderOf(/bin/sleep) = %q: %v", got, err)
	}
	// A truncated or modified file causes no panic.
	for n := range 1024 {
		cut := sleep[:n]
		if got := loaderOf(bytes.NewReader(cut), head(cut)); got != "" && !strings.Contains(got, "/ld-") {
			t.Errorf("loaderOf(the first %d bytes) = %q", n, got)
		}
		changed := bytes.Clone(sleep[:4096])
		changed[n] ^= 0xff
		loaderOf(bytes.NewReader(changed), head(changed))
	}
	for name, text := range map[string]string{"nothing": "", "a script": "#!/bin/sh\n" + strings.Repeat("x", 100)} {
		if got := loaderOf(strings.NewReader(text), []byte(text)); got != "" {
			t.Errorf("loaderOf(%s) = %q, want none", name, got)
		}
	}
}
