package draft

import (
	"os"
	"path/filepath"
	"strings"
)

// A System is what an importer may look at: files and the environment, real or a test's.
type System struct {
	ReadFile func(path string) ([]byte, error)
	IsDir    func(path string) bool
	Glob     func(pattern string) ([]string, error) // sorted
	Getenv   func(name string) (string, bool)
	Hostname func() string
}

// maxFile is the size of the largest file that is read.
const maxFile = 16 << 20

// Machine returns the system of this machine.
func Machine() System {
	return System{
		ReadFile: readFile,
		IsDir: func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.IsDir()
		},
		Glob:   filepath.Glob,
		Getenv: os.LookupEnv,
		Hostname: func() string {
			name, _ := os.Hostname() // "" where there is none
			return name
		},
	}
}

// readFile reads a regular file. Others may never end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, &os.PathError{Op: "read", Path: path, Err: errNotRegular}
	case info.Size() > maxFile:
		return nil, &os.PathError{Op: "read", Path: path, Err: errTooLarge}
	}
	return os.ReadFile(path)
}

// CutMark returns a text without the byte order mark that some editors put before it, and whether
// it has one.
func CutMark(text []byte) (rest string, marked bool) {
	return strings.CutPrefix(string(text), "\uFEFF")
}

type sourceError string

func (e sourceError) Error() string { return string(e) }

const (
	errNotRegular sourceError = "not a regular file"
	errTooLarge   sourceError = "larger than 16 MiB"
)
