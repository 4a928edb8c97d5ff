package linux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadPIDFile: a pid file has a pid in its first line. What another user may have put in its
// place neither blocks nor is followed.
func TestReadPIDFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	exposed := func(put func(path string) error) func(string) error {
		return func(path string) error {
			if err := os.Mkdir(path+".d", 0o700); err != nil {
				return err
			}
			if err := os.Chmod(path+".d", 0o777); err != nil {
				return err
			}
			return put(path + ".d/pid")
		}
	}
	tests := []struct {
		name string
		put  func(path string) error
		at   string // below path
		pid  int
		err  string
	}{
		{"number", write("42"), "", 42, ""},
		{"line", write("42\n"), "", 42, ""},
		{"blanks, and a second line", write(" 42 \n7\n"), "", 42, ""},
		{"missing", func(string) error { return nil }, "", 0, "file does not exist"},
		{"empty", write("\n"), "", 0, "it is empty"},
		{"text", write("pid 42"), "", 0, `it has no pid, but "pid 42"`},
		{"negative", write("-1"), "", 0, "it has no pid"},
		{"large", write(strings.Repeat("1", maxPIDFileBytes+1)), "", 0, "more than 4096 bytes"},
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, "", 0, "FIFO"},
		{"FIFO of another user", exposed(func(path string) error { return unix.Mkfifo(path, 0o600) }), ".d/pid", 0, "FIFO"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, "", 0, "directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if err := tt.put(path); err != nil {
				t.Fatal(err)
			}
			pid, err := readPIDFile(path+tt.at, "")
			if pid != tt.pid || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("readPIDFile = %d, %v; want %d, %q", pid, err, tt.pid, tt.err)
			}
		})
	}
	if os.Geteuid() != 0 {
		return // the rest gives files away
	}
	const stranger = 65534
	link := filepath.Join(dir, "link.d")
	target := filepath.Join(dir, "number")
	if err := os.Mkdir(link, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link+"/pid"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link + "/pid", link} {
		if err := os.Lchown(path, stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	if pid, err := readPIDFile(link+"/pid", ""); err == nil {
		t.Errorf("readPIDFile follows the link of another user: %d", pid)
	}
}

// TestPIDFileThatHangs: a read that hangs keeps one slot, however often its program looks again.
// The others know why they fail.
func TestPIDFileThatHangs(t *testing.T) {
	b := newTreeBed(t, true)
	path := filepath.Join(t.TempDir(), "pid")
	if err := os.WriteFile(path, []byte("42"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, results := make(chan struct{}), make(chan error, 3)
	read := func() {
		b.On(func() { b.kernel.ReadPIDFile(path, "", func(_ int, err error) { results <- err }) })
	}
	b.kernel.pidFiles.Limit = 1
	b.kernel.pidReading.Begin(&b.kernel.pidFiles, func() { <-release })
	read()
	read()
	if err := <-results; !errors.Is(err, errPIDFileBusy) {
		t.Errorf("second read: %v, want it refused", err)
	}
	close(release)
	if err := <-results; err != nil {
		t.Errorf("first read: %v", err)
	}
	b.kernel.pidReading.Wait()
	read()
	if err := <-results; err != nil {
		t.Errorf("a read when none is under way: %v", err)
	}
}
