package safepath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// Replace replaces the content of a regular file, durably and at once or not at all: another file
// takes its name, with the same owner, group and mode. Of a link, the target is replaced, if the
// link may be followed. Only a file that [Dir.Open] would open is replaced.
func Replace(path string, content []byte) error {
	dir, name, err := Locate(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	before, err := dir.Open(name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	unix.Close(before.FD)
	if before.Info.Mode.Type() != 0 {
		return &fs.PathError{Op: "replace", Path: dir.join(name), Err: errors.New("it is not a regular file")}
	}
	temporary := temporaryName()
	const private = 0o600
	f, err := dir.Open(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, private)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(f.FD), dir.join(temporary))
	err = fill(file, content, f.Info, before.Info)
	if err = errors.Join(err, file.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return dir.sync()
}

// WriteFile gives a path that content, durably and at once or not at all: a new file of that mode
// takes the name. A link there is replaced, and not followed.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	dir, err := OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	temporary := temporaryName()
	const private = 0o600
	f, err := dir.Open(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, private)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(f.FD), dir.join(temporary))
	like := f.Info
	like.Mode = mode
	err = fill(file, content, f.Info, like)
	if err = errors.Join(err, file.Close()); err == nil {
		err = dir.Rename(temporary, filepath.Base(path))
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	return dir.sync()
}

// RemoveFile removes a file durably; of a link, the link itself.
func RemoveFile(path string) error {
	dir, err := OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Remove(filepath.Base(path)); err != nil {
		return err
	}
	return dir.sync()
}

// fill writes content to a new file and gives it the properties of another one.
func fill(file *os.File, content []byte, own, like Info) error {
	if _, err := file.Write(content); err != nil {
		return err
	}
	if own.UID != like.UID || own.GID != like.GID {
		if err := file.Chown(int(like.UID), int(like.GID)); err != nil {
			return err
		}
	}
	if err := file.Chmod(like.Mode.Perm()); err != nil {
		return err
	}
	return file.Sync()
}

// sync makes the names in the directory durable.
func (d *Dir) sync() error {
	var fd int
	err := syscalls.Retry(func() (err error) {
		fd, err = unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	defer unix.Close(fd)
	if err := syscalls.Retry(func() error { return unix.Fsync(fd) }); err != nil {
		return &fs.PathError{Op: "sync", Path: d.path, Err: err}
	}
	return nil
}
