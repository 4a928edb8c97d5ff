package tests

import (
	"os"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestExport: `superd export` prints files and says what is different, and `superd import` reads
// them back.
func TestExport(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "[program.web]\ncommand = [\"/bin/sleep\", \"1000\"]\numask = \"027\"\n"+
		"[program.job]\ntype = \"oneshot\"\ncommand = [\"/bin/true\"]\n")
	s.BuildUI()
	r := s.Run("export", "kubernetes", s.Config, "--image", "app:1")
	if r.Exit != 0 || !strings.Contains(r.Out, "kind: Deployment") || !strings.Contains(r.Out, "# umask: Kubernetes has") {
		t.Errorf("superd export kubernetes = %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	if !strings.Contains(r.ErrOut, "program.web.umask: Kubernetes has no counterpart") {
		t.Errorf("standard error is %q", r.ErrOut)
	}
	s.Write("back.yaml", r.Out)
	if r := s.Run("import", "back.yaml"); r.Exit != 0 || !strings.Contains(r.Out, `umask = "027"`) {
		t.Errorf("superd import of the export: %v", r)
	}
	// What a configuration has is for those who may read it
	s.Chmod("superd.toml", 0o600)
	for _, tt := range []struct {
		name string
		args []string
		exit int
		says string
	}{
		{"a difference with --strict", []string{"nomad", s.Config, "--strict", "-o", s.Path("jobs") + "/"}, 1, "differences: see above"},
		{"an existing file", []string{"nomad", s.Config, "-o", s.Path("jobs") + "/"}, 1, "--force replaces it"},
		{"several files for one", []string{"nomad", s.Config, "-o", s.Path("one.hcl")}, 1, "name a directory"},
		{"an unknown format", []string{"swarm", s.Config}, 2, "write one of nomad"},
		{"no such file", []string{"nomad", s.Path("none.toml")}, 2, "none.toml"},
		{"an image of no program", []string{"compose", s.Config, "--image", "wbe=x"}, 2, `no program "wbe"`},
		{"a zone that is none", []string{"nomad", s.Config, "--time-zone", "Mars/Base"}, 2, "--time-zone"},
		{"superd with everything", []string{"nomad", s.Config, "--whole", "--strict"}, 0, ""},
	} {
		if r := s.Run(append([]string{"export"}, tt.args...)...); r.Exit != tt.exit || !strings.Contains(r.ErrOut, tt.says) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", tt.name, r.Exit, tt.exit, tt.says, r.ErrOut)
		}
	}
	entries, err := os.ReadDir(s.Path("jobs"))
	if err != nil || len(entries) != 2 {
		t.Fatalf("the directory has %v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	s.Write("broken.toml", "[program.web]\ncomand = 5\n")
	if r := s.Run("export", "nomad", "broken.toml"); r.Exit != 2 || !strings.Contains(r.ErrOut, "broken.toml:2:1") {
		t.Errorf("export of a mistake: %v", r)
	}
}
