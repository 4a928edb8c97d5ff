package enablement

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		name, text string
		changes    Changes
		want       string // without the header
	}{
		{"a first decision", "", Changes{"web": &no}, "\"web\" = false\n"},
		{"others stay, sorted", "z = true\n'a.b' = false\n", Changes{"web": &yes}, "\"a.b\" = false\n\"web\" = true\n\"z\" = true\n"},
		{"any name", "\"a\\u0007\\\"\" = false\n", Changes{}, "\"a\\u0007\\\"\" = false\n"},
		{"the opposite", "web = true\n", Changes{"web": &no}, "\"web\" = false\n"},
		{"the last one is taken back", "web = true\n", Changes{"web": nil}, ""},
		{"one that is not there", "", Changes{"web": nil}, ""},
	} {
		got, err := Edit("f", tt.text, tt.changes)
		if err != nil || strings.TrimPrefix(got, header) != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"web = 1\n": `"web" is not true or false: correct it, or remove the file`,
		"web = \n":  "f:1:7: syntax error",
	} {
		if got, err := Edit("f", text, Changes{"db": &yes}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("edit of %q gives %q, %v, want error %s", text, got, err, want)
		}
	}
}

func TestSave(t *testing.T) {
	dir := t.TempDir()
	path := File(filepath.Join(dir, "superd.toml"))
	no := false
	if err := Save(path, Changes{"web": &no}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != header+"\"web\" = false\n" {
		t.Errorf("the file: %q, %v", text, err)
	}
	if err := Save(path, Changes{"web": nil}); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	err := Save(filepath.Join(dir, "none", "f"), Changes{"web": &no})
	if err == nil || !strings.HasPrefix(err.Error(), "write "+dir) || !strings.HasSuffix(err.Error(), ": no such file or directory") {
		t.Errorf("save into no directory: %v", err)
	}
}
