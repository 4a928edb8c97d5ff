package exporter_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"superd/config"
	"superd/exporter"
	"superd/exporter/manifest"
	"superd/tests/golden"
)

// readCase loads a configuration of testdata as if it were /srv/NAME/superd.toml.
func readCase(t testing.TB, file string) *config.Config {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := "/srv/" + strings.TrimSuffix(filepath.Base(file), ".toml") + "/superd.toml"
	c, err := config.ExamineEdited(path, path, string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, mistake := range c.Errors {
		t.Error(mistake)
	}
	return c
}

// TestGolden exports each configuration in testdata to each format, and compares the files and the
// notes.
func TestGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(cases) == 0 {
		t.Fatalf("there are no cases: %v", err)
	}
	for _, file := range cases {
		if filepath.Base(file) == "keys.toml" {
			continue // see TestKeysFile
		}
		c := readCase(t, file)
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		for _, f := range exporter.Formats() {
			for suffix, export := range map[string]func(*config.Config, manifest.Options) (*manifest.Export, error){
				"": f.Export, "-whole": f.Whole,
			} {
				e, err := export(c, options)
				if err != nil {
					t.Fatal(err)
				}
				golden.Check(t, f.Name+"/"+name+suffix+".golden", text(e))
			}
		}
	}
}

// text returns an export as the golden files have it.
func text(e *manifest.Export) string {
	var b strings.Builder
	for _, f := range e.Files {
		b.WriteString("-- " + f.Name + " --\n" + f.Text)
	}
	b.WriteString("-- notes --\n")
	for _, n := range e.Notes {
		b.WriteString(n.String() + "\n")
	}
	return b.String()
}
