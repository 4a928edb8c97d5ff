package locate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSocketDespiteMistakes: a mistake elsewhere does not hide the superd that runs.
func TestSocketDespiteMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "broken"), []byte("[program.web\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, text, want string }{
		{"no mistake", "[superd]\nruntime_dir = \"/run/x\"", "/run/x/superd.sock"},
		{"unknown key", "[superd]\nruntime_dir = \"/run/x\"\nother = 1", "/run/x/superd.sock"},
		{"an included file", "include = [\"broken\"]\n[superd]\nruntime_dir = \"run\"", filepath.Join(dir, "run/superd.sock")},
		{"not TOML", "[superd]\nruntime_dir = \"/run/x\"\n[", ""},
		{"not a string", "[superd]\nruntime_dir = 1", ""},
	}
	for _, tt := range tests {
		path := filepath.Join(dir, "superd.toml")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Socket(path, "")
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: Socket() = %q, %v, want %q", tt.name, got, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "--runtime-dir") {
			t.Errorf("%s: the error has no remedy: %v", tt.name, err)
		}
	}
}
