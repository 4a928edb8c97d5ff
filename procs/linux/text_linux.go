package linux

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"superd/internal/safepath"
	"superd/internal/syscalls"
)

// OpenText returns a new descriptor of a file without a name that has this text, at its begin. It
// needs no disk where the kernel has memfd_create(2). It may block.
func (k *Host) OpenText(text []byte) (fd int, err error) {
	fd, err = unix.MemfdCreate("superd-alert", unix.MFD_CLOEXEC)
	if err != nil { // refused by a sandbox
		var dir *safepath.Dir
		if dir, err = safepath.OpenDir(k.runtimeDir); err != nil {
			return -1, err
		}
		defer dir.Close()
		if fd, err = dir.OpenNameless(); err != nil {
			return -1, err
		}
	}
	for rest := text; len(rest) > 0 && err == nil; {
		var n int
		n, err = syscalls.RetryInt(func() (int, error) { return unix.Write(fd, rest) })
		rest = rest[max(n, 0):]
	}
	if err == nil {
		_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	}
	if err != nil {
		return -1, errors.Join(os.NewSyscallError("write", err), unix.Close(fd))
	}
	return fd, nil
}
