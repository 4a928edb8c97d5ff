package linux

import (
	"errors"
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

func owner(t *testing.T, path string) (uid uint32) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

// write makes a file below root, with the directories above it.
func write(t *testing.T, root, name string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, make func(from, to string) error, from, to string) {
	t.Helper()
	if err := make(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestMakeDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives directories to another user")
	}
	root, elsewhere := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"victim", "old/in/file", "own/file", "data/db/file"} {
		write(t, root, name)
	}
	write(t, elsewhere, "host/file")
	write(t, elsewhere, "given/file")
	if err := os.Chown(filepath.Join(elsewhere, "given"), 54321, 0); err != nil {
		t.Fatal(err)
	}
	link(t, os.Symlink, filepath.Join(elsewhere, "host"), in("outside"))
	link(t, os.Symlink, filepath.Join(elsewhere, "given"), in("given"))
	link(t, os.Link, in("victim"), in("old/linked"))
	link(t, os.Symlink, in("victim"), in("old/link"))
	link(t, os.Symlink, in("data/db"), in("moved"))
	maker := func(user *runAs) *directoryMaker {
		return &directoryMaker{mode: 0o2750, user: user, stop: func() bool { return false }}
	}
	old := unix.Umask(0o077)
	for _, name := range []string{"new", "a/b/c", "old", "moved"} {
		if err := maker(otherUser).make(root, in(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(in(name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid != 54321 || st.Gid != 54322 || st.Mode&0o7777 != 0o2750 {
			t.Errorf("%s has the owner %d:%d and the mode %o", name, st.Uid, st.Gid, st.Mode)
		}
	}
	unix.Umask(old)
	if info, err := os.Stat(in("a/b")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory above is %v, %v", info.Mode(), err)
	}
	for name, want := range map[string]uint32{
		"a/b": 0, "old/in/file": 54321, "old/link": 54321, "old/linked": 0, "victim": 0, "data/db/file": 54321, "own/file": 0,
	} {
		if uid := owner(t, in(name)); uid != want {
			t.Errorf("%s has the owner %d, want %d", name, uid, want)
		}
	}
	// A program without a user of its own may have given its directory to one
	if err := maker(&runAs{}).make(root, in("old")); err != nil {
		t.Error(err)
	}
	if uid := owner(t, in("old")); uid != 54321 {
		t.Errorf("the directory of a program without a user gets the owner %d", uid)
	}
	if err := maker(otherUser).make(root, in("given")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"host", "host/file", "given/file"} {
		if uid := owner(t, filepath.Join(elsewhere, path)); uid != 0 {
			t.Errorf("%s, outside the root, has the owner %d", path, uid)
		}
	}
	for name, want := range map[string]string{"victim": "not a directory", "old/linked/x": "not a directory", "outside": "it is a link to " + elsewhere + "/host"} {
		if err := maker(otherUser).make(root, in(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if uid := owner(t, filepath.Join(elsewhere, "host/file")); uid != 0 {
		t.Error("a file outside the root is given away")
	}
}

// TestGiveAwayRefuses: a tree is not given away beyond a mount, at any depth, or where others may
// have put it.
func TestGiveAwayRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives directories to another user")
	}
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	write(t, root, "host/file")
	write(t, root, "mounts/at/file")
	if err := unix.Mount(in("host"), in("mounts/at"), "", unix.MS_BIND, ""); err != nil {
		t.Skip("no mount: ", err)
	}
	t.Cleanup(func() { unix.Unmount(in("mounts/at"), unix.MNT_DETACH) })
	write(t, root, "deep"+strings.Repeat("/d", 2*maxDepth)+"/file")
	write(t, root, "open/web/file")
	if err := os.Chmod(in("open"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"mounts": `"at": something is mounted there`, "deep": "more than 32 directories", "open/web": "anybody could have put it"} {
		m := &directoryMaker{mode: 0o755, user: otherUser, stop: func() bool { return false }}
		if err := m.make(root, in(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if uid := owner(t, in("host/file")); uid != 0 {
		t.Error("a file beyond a mount is given away")
	}
	dir, err := moveAside(in("mounts"), new(atomic.Bool))
	if err == nil {
		err = dir.remove()
	}
	if err == nil || !strings.Contains(err.Error(), `"at": something is mounted there`) {
		t.Errorf("removal with a mount in it: %v", err)
	}
	if _, err := os.Stat(in("host/file")); err != nil {
		t.Error("a file beyond a mount is removed")
	}
	unix.Unmount(filepath.Join(root, dir.name, "at"), unix.MNT_DETACH)
}

func TestRemoveDirectory(t *testing.T) {
	root := t.TempDir()
	write(t, root, "web"+strings.Repeat("/d", 3*maxDepth)+"/file")
	write(t, root, "kept")
	write(t, root, asidePrefix+"of an earlier superd/file")
	link(t, os.Symlink, root, filepath.Join(root, "web/up"))
	canceled := new(atomic.Bool)
	canceled.Store(true)
	if _, err := moveAside(filepath.Join(root, "web"), canceled); !errors.Is(err, errCanceled) {
		t.Errorf("a canceled removal: %v", err)
	}
	dir, err := moveAside(filepath.Join(root, "web"), new(atomic.Bool))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "web")); !os.IsNotExist(err) {
		t.Errorf("the old name is still there: %v", err)
	}
	dir.sweep()
	if err := dir.remove(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("%v is left, %v; want only kept", left, err)
	}
	if _, err := moveAside(filepath.Join(root, "kept"), new(atomic.Bool)); err == nil {
		t.Error("a file is moved aside")
	}
}
