package logs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// An identity tells one file from another.
type identity struct{ device, inode uint64 }

// A fileInfo is what a capture asks about a file.
type fileInfo struct {
	identity
	size    int64 // bytes
	regular bool
}

// statPath looks at the file that path names.
func statPath(path string) (fileInfo, error) {
	var st unix.Stat_t
	for {
		err := unix.Stat(path, &st)
		if err == nil {
			return newFileInfo(&st), nil
		}
		if err != unix.EINTR {
			return fileInfo{}, &os.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

// statFile looks at an open file.
func statFile(f *os.File) (fileInfo, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return fileInfo{}, err
	}
	var st unix.Stat_t
	var serr error
	if err := conn.Control(func(fd uintptr) { serr = unix.Fstat(int(fd), &st) }); err != nil {
		return fileInfo{}, err
	}
	if serr != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: f.Name(), Err: serr}
	}
	return newFileInfo(&st), nil
}

func newFileInfo(st *unix.Stat_t) fileInfo {
	return fileInfo{
		identity: identity{uint64(st.Dev), st.Ino},
		size:     st.Size,
		regular:  st.Mode&unix.S_IFMT == unix.S_IFREG,
	}
}

// renameNew renames a file; that something has the new name is an error (os.ErrExist).
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on every file system: rename(2)
		if _, lerr := os.Lstat(to); lerr == nil {
			err = unix.EEXIST
		} else {
			return os.Rename(from, to)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}
