package enforce

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// TestSourceByLink: what superd shows of the host is not chosen by a link that the program has
// made, such as one in place of a directory within its state_directory.
func TestSourceByLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	daemon := 1
	dir := t.TempDir()
	for _, name := range []string{"secret", "state", "state/real"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"of-program", "of-root"} {
		if err := os.Symlink("../secret", filepath.Join(dir, "state", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Lchown(filepath.Join(dir, "state/of-program"), daemon, daemon); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Open("/", openPath|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	m := &mounter{Sandbox: &Sandbox{plan: &sandbox.Plan{User: &daemon}}, host: root, root: root}
	for name, want := range map[string]error{"real": nil, "of-root": nil, "of-program": unix.ELOOP} {
		v := &view{Path: sandbox.Path{Path: dir, Source: filepath.Join(dir, "state", name), View: sandbox.ViewReadWrite}, tree: -1}
		if err := m.resolve(v); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if v.tree >= 0 {
			unix.Close(v.tree)
		}
	}
}
