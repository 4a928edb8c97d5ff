package keeper

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRuntimeDirInOtherMounts: the path of a stored directory is one that leads to it, also when
// the kernel shows another one since the mounts of the predecessor are gone.
func TestRuntimeDirInOtherMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, other := t.TempDir(), t.TempDir()
	link := filepath.Join(other, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name         string
		flags        uint
		usual, want  string
		wantToBeSeen bool
	}{
		{"seen", 0, other, dir, true},
		{"mounts are gone", unix.OPEN_TREE_CLONE, dir, dir, true},
		{"and the usual path is a link", unix.OPEN_TREE_CLONE, link, link, true},
		{"and the usual directory is another", unix.OPEN_TREE_CLONE, other, "", false},
		{"and there is none", unix.OPEN_TREE_CLONE, filepath.Join(other, "none"), "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fd, err := unix.OpenTree(unix.AT_FDCWD, dir, tt.flags|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			l := &Link{files: map[string]int{runtimeFile: fd}}
			if got, ok := l.RuntimeDir(tt.usual); got != tt.want || ok != tt.wantToBeSeen {
				t.Errorf("RuntimeDir(%s) = %q, %v, want %q, %v", tt.usual, got, ok, tt.want, tt.wantToBeSeen)
			}
		})
	}
}
