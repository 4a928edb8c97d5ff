// Package logstest has what tests of the packages of logs share: reading log files back, and
// directories where another user may write.
package logstest

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Files returns the contents of the log file and of those rotated from it, oldest first, and their
// names.
func Files(t testing.TB, path string) (contents, names []string) {
	t.Helper()
	names, err := filepath.Glob(path + ".*") // sorted by name
	Must(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".tmp") })
	if _, err := os.Stat(path); err == nil {
		names = append(names, path)
	}
	for _, name := range names {
		contents = append(contents, Unpacked(t, name))
	}
	return contents, names
}

// Joined returns the contents of Files as one.
func Joined(t testing.TB, path string) string {
	t.Helper()
	contents, _ := Files(t, path)
	return strings.Join(contents, "")
}

// Unpacked returns the content of a log file, which may be compressed.
func Unpacked(t testing.TB, name string) string {
	t.Helper()
	file, err := os.Open(name)
	Must(t, err)
	defer file.Close()
	var from io.Reader = file
	switch filepath.Ext(name) {
	case ".gz":
		from, err = gzip.NewReader(file)
	case ".zst":
		from, err = zstd.NewReader(file)
	}
	Must(t, err)
	data, err := io.ReadAll(from)
	Must(t, err)
	return string(data)
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	Must(t, err)
	return string(data)
}

// WriteFile makes a file.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// Equal compares, and fails without printing megabytes.
func Equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Fatalf("%s: %d bytes, want %d; they differ from byte %d: got %.80q, want %.80q",
		what, len(got), len(want), i, got[i:], want[i:])
}

// Must fails if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// OtherUser is a user other than superd's.
const OtherUser = 54321

// Exposed makes a directory that belongs to OtherUser.
func Exposed(t testing.TB) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of another user")
	}
	dir = filepath.Join(t.TempDir(), "theirs")
	Must(t, os.Mkdir(dir, 0o755))
	Must(t, os.Chown(dir, OtherUser, OtherUser))
	return dir
}

// Stat returns what stat(2) reports of the file at path.
func Stat(t testing.TB, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Lstat(path)
	Must(t, err)
	return info.Sys().(*syscall.Stat_t)
}
