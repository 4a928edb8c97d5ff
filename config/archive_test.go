package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkArchive checks that c is unchanged after its archive is read on a machine without its files.
func checkArchive(t *testing.T, c *Config) {
	t.Helper()
	archive := c.Archive()
	restored, err := restore(archive, memory(nil))
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if diff := Compare(c, restored); diff.Differs() {
		t.Fatalf("restored it is another one: %+v", diff)
	}
	for i, p := range c.Programs {
		if r := restored.Programs[i]; p.File != r.File || p.Line != r.Line {
			t.Fatalf("%s is at %s:%d, restored at %s:%d", p.Name, p.File, p.Line, r.File, r.Line)
		}
	}
	if got, want := restored.Errors.Error()+restored.Warnings.Error(), c.Errors.Error()+c.Warnings.Error(); got != want {
		t.Fatalf("restored it says\n%s\nwant\n%s", got, want)
	}
	if !bytes.Equal(archive, restored.Archive()) {
		t.Fatalf("its archive has become\n%s\nwant\n%s", restored.Archive(), archive)
	}
}

func TestArchiveHasAllFiles(t *testing.T) {
	files := map[string]string{
		"superd.toml":       "include = [\"conf.d/*.toml\", \"one.toml\"]\n[program.web]\ncommand = \"web ${X} ${Y}\"\nenv_file = \"web.env\"\n",
		"one.toml":          "[program.one]\ncommand = \"one\"\nenv_file = \"missing.env\"\n",
		"conf.d/a.toml":     "\ufeff[program.a]\ncommand = \"a\"\nfoo = 1\n",
		"conf.d/b.toml":     "[program.b]\ncommand = \"b\"\nenv_file = \"broken.env\"\n",
		"web.env":           "X=caf\xe9\n",
		"conf.d/broken.env": "no assignment\n",
	}
	c, err := load("superd.toml", memory(files))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Programs) != 4 || len(c.Files) != 4 || len(c.Errors) != 2 || len(c.Warnings) == 0 {
		t.Fatalf("%d programs, %d files, errors %v, warnings %v", len(c.Programs), len(c.Files), c.Errors, c.Warnings)
	}
	checkArchive(t, c)
}

// TestConfigurationsAreBounded: a configuration that does not fit into a record of the journal is
// refused before anything is started.
func TestConfigurationsAreBounded(t *testing.T) {
	files := map[string]string{"superd.toml": "include = [\"conf.d/*.toml\"]\n[program.web]\ncommand = \"web\"\n"}
	large := "#" + strings.Repeat("x", 16<<20-2) + "\n"
	for _, name := range []string{"a", "b", "c", "d"} {
		files["conf.d/"+name+".toml"] = large
	}
	_, err := load("superd.toml", memory(files))
	if err == nil || !strings.Contains(err.Error(), "conf.d/d.toml: read configuration: the files of the configuration have more than 64 MiB in all") {
		t.Errorf("load of 64 MiB and some: %v", err)
	}
}

func TestRestoreNeedsNoFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := "[superd]\nlog_dir = \"log\"\n[program.web]\ncommand = \"web\"\n"
	if err := os.WriteFile("superd.toml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load("superd.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove("superd.toml"); err != nil {
		t.Fatal(err)
	}
	t.Chdir("/")
	restored, err := Restore(c.Archive())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := restored.Superd.LogDir, filepath.Join(dir, "log"); got != want {
		t.Errorf("log_dir = %s, want %s", got, want)
	}
	if got := restored.Programs[0].Directory; got != dir {
		t.Errorf("directory = %s, want %s", got, dir)
	}
	for path, want := range map[string]bool{
		filepath.Join(dir, "superd.toml"): true, dir + "/./superd.toml": true, "superd.toml": false, "/etc/superd.toml": false,
	} {
		if got := restored.IsFrom(path); got != want {
			t.Errorf("IsFrom(%s) = %v, want %v", path, got, want)
		}
	}
}

func TestABrokenArchiveIsRefused(t *testing.T) {
	c, err := load("superd.toml", memory(map[string]string{"superd.toml": "[program.web]\ncommand = \"web\"\n"}))
	if err != nil {
		t.Fatal(err)
	}
	archive := string(c.Archive())
	if _, err := Restore([]byte(archive)); err != nil {
		t.Fatal(err)
	}
	for name, document := range map[string]string{
		"empty": "", "null": "null", "zeros": "\x00\x00", "torn": archive[:len(archive)/2],
		"newer":          strings.Replace(archive, `"version":1`, `"version":2`, 1),
		"without files":  `{"version":1,"path":"superd.toml","directory":"/etc/superd"}`,
		"broken sources": strings.Replace(archive, "[program", "[[program", 1),
	} {
		if c, err := Restore([]byte(document)); err == nil {
			t.Errorf("%s: restored as %+v", name, c)
		}
	}
}
