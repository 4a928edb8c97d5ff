package tests

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"testing"
)

// TestStaticBinary: superd is one file that runs on any Linux of its architecture.
func TestStaticBinary(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPERD_BINARY") != "" {
		t.Skip("another superd than that of users is tested")
	}
	path, err := exec.LookPath("superd")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s has a program header %v: it needs a dynamic loader", path, p.Type)
		}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range info.Settings {
		if setting.Key == "CGO_ENABLED" && setting.Value != "0" {
			t.Errorf("%s was built with CGO_ENABLED=%s, want 0", path, setting.Value)
		}
	}
}
