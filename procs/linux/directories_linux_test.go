package linux

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// otherUser is a user that is neither root nor the test.
var otherUser = &runAs{name: "user other", credential: &syscall.Credential{Uid: 54321, Gid: 54322}}

func owner(t *testing.T, path string) (uid, gid uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid, st.Gid
}

func TestMakeDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives directories to another user")
	}
	root := t.TempDir()
	write := func(name string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("victim")
	write("old/in/file")
	if err := os.Link(filepath.Join(root, "victim"), filepath.Join(root, "old/linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "victim"), filepath.Join(root, "old/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(root, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	make := func(name string, fresh bool) error {
		return makeDirectory(filepath.Join(root, name), 0o2750, fresh, otherUser)
	}
	for _, name := range []string{"new", "a/b", "old"} {
		if err := make(name, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if uid, gid := owner(t, filepath.Join(root, name)); uid != 54321 || gid != 54322 || info.Mode().Perm() != 0o750 {
			t.Errorf("%s has the owner %d:%d and the mode %v", name, uid, gid, info.Mode())
		}
	}
	for name, want := range map[string]uint32{"a": 0, "old/in/file": 54321, "old/link": 54321, "old/linked": 0, "victim": 0} {
		if uid, _ := owner(t, filepath.Join(root, name)); uid != want {
			t.Errorf("%s has the owner %d, want %d", name, uid, want)
		}
	}
	for _, name := range []string{"victim", "elsewhere"} {
		if err := make(name, true); err == nil || !strings.Contains(err.Error(), "no directory, or a link") {
			t.Errorf("%s: %v, want that it is refused", name, err)
		}
	}
	if err := make("old", true); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(root, "old")); err != nil || len(left) > 0 {
		t.Errorf("a fresh directory has %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(root, "victim")); err != nil {
		t.Error("the target of a link is removed")
	}
}

func TestRemoveDirectory(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "web")
	deep := dir
	for range 3 * maxDepth {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(root, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	if err := removeDirectory(dir, new(atomic.Bool)); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error("removing it has followed a link")
	}
}

func TestCanceledRemoval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "web")
	if err := os.MkdirAll(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	canceled := new(atomic.Bool)
	canceled.Store(true)
	if err := removeDirectory(dir, canceled); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "in")); err != nil {
		t.Error("a canceled removal goes on")
	}
}
