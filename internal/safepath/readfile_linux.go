package safepath

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ReadFile returns the content of a file that is opened by the rules of [Open]. The null device is
// empty. Other devices, FIFOs and files of more than most bytes are errors. owners are users whose
// file is accepted.
func ReadFile(path string, most int64, owners ...uint32) ([]byte, error) {
	f, err := Open(path, unix.O_RDONLY, 0, owners...)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(f.FD), path)
	defer file.Close()
	switch {
	case f.Info.Null:
		return nil, nil
	case !f.Info.Mode.IsRegular():
		return nil, fmt.Errorf("read %s: it is %s, not a regular file", path, kind(f.Info.Mode))
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("read %s: it has more than %d bytes", path, most)
	}
	return text, err
}

// List returns the sorted names of the entries of a directory, which is opened by the rules of
// [Open].
func List(path string) ([]string, error) {
	dir, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Names()
}
