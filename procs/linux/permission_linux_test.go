package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefuses: the result names the part of a path that denies access to a user.
func TestRefuses(t *testing.T) {
	dir := openTemp(t)
	put := func(name string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("open/", 0o755)
	put("open/x", 0o755)
	put("open/plain", 0o644)
	put("closed/", 0o750)
	put("closed/x", 0o755)
	put("closed/open/", 0o755)
	put("odd/", 0o705)
	put("odd/x", 0o755)
	put("open/group", 0o710)
	put("open/other", 0o701)
	for name, target := range map[string]string{
		"open/link": "x", "open/up": "../closed/x", "open/absolute": dir + "/closed/x", "loop": "loop", "short": "closed", "lost": "nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	other := &rights{name: "user x", uid: uid + 1000, gids: []uint32{gid + 1000}}
	member := &rights{name: "user x", uid: uid + 1000, gids: []uint32{gid + 1000, gid}}
	owner := &rights{name: "user x", uid: uid, gids: []uint32{gid}}
	tests := []struct {
		user *rights
		path string
		want string // refusing part; "" for none
	}{
		{other, "open/x", ""},
		{other, "open", ""},
		{other, "open/link", ""},
		{other, "open/../open/./x", ""},
		{other, "open/plain", "execute DIR/open/plain (mode 0644"},
		{other, "closed/x", "enter DIR/closed (mode 0750"},
		{other, "closed/open", "enter DIR/closed (mode 0750"},
		{other, "open/up", "enter DIR/closed (mode 0750"},
		{other, "open/absolute", "enter DIR/closed (mode 0750"},
		{other, "short/x", "enter DIR/closed (mode 0750"},
		{other, "odd/x", ""},
		{other, "open/group", "execute DIR/open/group (mode 0710"},
		{other, "open/other", ""},
		{member, "closed/x", ""},
		{member, "odd/x", "enter DIR/odd (mode 0705"}, // the group's bits count, not the others'
		{member, "open/group", ""},
		{owner, "closed/open", ""},
		{other, "loop", ""}, // the kernel reports another error for it
		{other, "lost", ""},
		{other, "nowhere/at/all", ""},
	}
	for _, tt := range tests {
		got := ""
		if err := tt.user.refuses(filepath.Join(dir, tt.path)); err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		want := "user x may not " + tt.want
		if tt.want == "" && got != "" || tt.want != "" && !strings.HasPrefix(got, want+", owner ") {
			t.Errorf("%+v, %s: %q, want %q", *tt.user, tt.path, got, want)
		}
	}
}

// openTemp returns a new directory that every user may enter, with all its parents.
func openTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for at := dir; strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRefusesLeavesListsToTheKernel: a path with an access control list, which may override the
// mode bits, is left to the kernel.
func TestRefusesLeavesListsToTheKernel(t *testing.T) {
	path := filepath.Join(openTemp(t), "x")
	if err := os.WriteFile(path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	other := &rights{name: "user x", uid: uint32(os.Geteuid()) + 1000}
	if err := other.refuses(path); err == nil {
		t.Error("mode 0700 lets another user pass")
	}
	// Version 2; user::rwx, user:1:--x, group::---, mask::--x, other::---. Source:
	// linux/posix_acl_xattr.h.
	list := []byte{2, 0, 0, 0,
		1, 0, 7, 0, 255, 255, 255, 255,
		2, 0, 1, 0, 1, 0, 0, 0,
		4, 0, 0, 0, 255, 255, 255, 255,
		16, 0, 1, 0, 255, 255, 255, 255,
		32, 0, 0, 0, 255, 255, 255, 255,
	}
	if err := unix.Setxattr(path, "system.posix_acl_access", list, 0); err != nil {
		t.Skipf("no access control lists here: %v", err)
	}
	if err := other.refuses(path); err != nil {
		t.Errorf("with a list: %v, want the kernel to decide", err)
	}
}
