package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVersion: the version follows the tag, and a release is in CHANGELOG.md.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "packaging"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("packaging/version.sh", string(read(t, "../../packaging/version.sh")))
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e", "-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	want := func(text string, args ...string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "packaging/version.sh"), args...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); !strings.HasPrefix(got, text) || (err != nil) != strings.HasPrefix(text, "version:") {
			t.Errorf("version.sh %q: %v, %s, want %s", args, err, got, text)
		}
	}
	commit := func(changelog string) {
		write("CHANGELOG.md", changelog)
		git("add", ".")
		git("commit", "--quiet", "--allow-empty", "--message", "m")
	}
	git("init", "--quiet")
	commit("## [Unreleased]\n")
	want("0.0.0+1.g")
	want("version: the commit", "--tag")
	git("tag", "v1.2.3-rc.1")
	want("1.2.3-rc.1", "--tag")
	commit("## [Unreleased]\n")
	want("1.2.3-rc.1+1.g")
	git("tag", "v1.2.3")
	want("1.2.3")
	want("version: CHANGELOG.md has no release 1.2.3", "--tag")
	commit("## [Unreleased]\n\n## [1.2.30] - 2026-01-02\n\n## [1.2.4] - 2026-01-02\n")
	git("tag", "v1.2.4")
	want("1.2.4", "--tag")
	write("CHANGELOG.md", "")
	want("version: files differ", "--tag")
	want("1.2.4+0.g")
}
