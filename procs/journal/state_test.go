package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	content, err := appendHeader(nil, header{"journal", format + 1, boot, Writer{7, "v9.9.9"}})
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := Read(dir, boot)
	_, _, openErr := Open(dir, boot, nil)
	for _, err := range []error{readErr, openErr} {
		newer, ok := errors.AsType[*VersionError](err)
		if !ok || newer.Format != format+1 || newer.Writer.Pid != 7 || !strings.Contains(err.Error(), path+": written by a newer superd (v9.9.9)") {
			t.Errorf("error = %v", err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(content) {
		t.Errorf("it is %q now, %v", now, err)
	}
}

func TestTheMachineWasBootedSince(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	mustPut(t, j, "web", 1)
	j.Close(time.Minute)
	state, err := Read(dir, "another")
	if err != nil || !state.OtherBoot || len(state.Values) != 1 {
		t.Errorf("after a boot: %+v, %v", state, err)
	}
	if state, err := Read(dir, boot); err != nil || state.OtherBoot {
		t.Errorf("without one: %+v, %v", state, err)
	}
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"directory":        func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"symbolic link":    func(path string) error { return os.Symlink("/dev/null", path) },
		"device, no less":  func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o600, 0x103) },
		"link to nowhere":  func(path string) error { return os.Symlink("nowhere", path) },
		"link to a secret": func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, fileName)
			if err := place(path); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(dir, boot, nil); err == nil || !strings.Contains(err.Error(), path+": it is not a regular file: remove it") {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	j.Close(time.Minute)
	if err := os.WriteFile(filepath.Join(dir, newName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if state, err := Read(dir, boot); err != nil || state.Existed || state.Values == nil {
		t.Errorf("without a journal: %+v, %v", state, err)
	}
}
