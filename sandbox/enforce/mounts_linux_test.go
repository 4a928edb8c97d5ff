package enforce

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
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
		if err := m.resolve(v); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if v.tree >= 0 {
			unix.Close(v.tree)
		}
	}
}

// TestLinkOfLog: a program with private devices has the host's link /dev/log.
func TestLinkOfLog(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const want = "/run/systemd/journal/dev-log"
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its mounts
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Log("no mounts here: ", err)
			return
		}
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("dev", "/dev", "tmpfs", 0, "")); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Symlink(want, "/dev/log"); err != nil {
			t.Error(err)
		}
		s := &Sandbox{plan: &sandbox.Plan{Paths: []sandbox.Path{
			{Key: "private_devices", Path: "/dev", View: sandbox.ViewDevices},
		}}}
		if err := s.mount(); err != nil {
			t.Error(err)
		}
		if link := logLink(); link != want {
			t.Errorf("/dev/log leads to %q, want %q", link, want)
		}
	}()
	<-done
}
