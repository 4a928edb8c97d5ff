package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// An identity tells one file from another.
type identity struct{ device, inode uint64 }

// A fileInfo is what a capture asks about a file.
type fileInfo struct {
	identity
	size    int64 // bytes
	changed time.Time
	regular bool
	named   bool // it has a name yet

	uid, gid, mode uint32
}

// statPath looks at the file that path names.
func statPath(path string) (fileInfo, error) {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Stat(path, &st) }); err != nil {
		return fileInfo{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return newFileInfo(&st), nil
}

// statFD looks at an open file.
func statFD(fd int) (fileInfo, error) {
	var st unix.Stat_t
	if err := retryEINTR(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return fileInfo{}, os.NewSyscallError("fstat", err)
	}
	return newFileInfo(&st), nil
}

func newFileInfo(st *unix.Stat_t) fileInfo {
	return fileInfo{
		identity: identity{uint64(st.Dev), st.Ino},
		size:     st.Size,
		changed:  time.Unix(st.Mtim.Unix()),
		regular:  st.Mode&unix.S_IFMT == unix.S_IFREG,
		named:    st.Nlink > 0,
		uid:      st.Uid,
		gid:      st.Gid,
		mode:     st.Mode & 0o7777,
	}
}

// appending is for files that others write to, too. splice(2) refuses it.
const appending = unix.O_APPEND

// openLog opens the file at path for writing and makes it and its directory if need be. more is appending or 0.
func openLog(path string, more int) (int, error) {
	// O_NONBLOCK: a FIFO without a reader is an error instead of waiting for one.
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOCTTY | more
	fd, err := openFile(path, flags)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return -1, err
		}
		fd, err = openFile(path, flags)
	}
	return fd, err
}

// openOrMake is openLog, and tells whether it has made the file.
func openOrMake(path string, more int) (fd int, made bool, err error) {
	if fd, err = openLog(path, more|unix.O_EXCL); errors.Is(err, fs.ErrExist) {
		fd, err = openLog(path, more)
		return fd, false, err
	}
	return fd, err == nil, err
}

// openRead opens the file at path for reading, without waiting for anything that is not a file.
func openRead(path string) (int, error) {
	return openFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
}

// openTemporary makes a file without a name in directory.
func openTemporary(directory string) (int, error) {
	return openFile(directory, unix.O_TMPFILE|unix.O_RDWR)
}

// freeBytes returns how much is free for all users on the file system of an open file.
func freeBytes(fd int) (int64, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// bornAt returns when an open file was made, in nanoseconds of the Unix epoch, or otherwise where the file system doesn't tell.
func bornAt(fd int, otherwise int64) int64 {
	var st unix.Statx_t
	err := retryEINTR(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) })
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return otherwise
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// lowerPriority has the goroutine run on a thread of its own from now on, which gets what processor and disk others leave, and ends with it.
func lowerPriority() {
	runtime.LockOSThread()
	const idle, ofThread = 3 << 13, 1 // IOPRIO_CLASS_IDLE, IOPRIO_WHO_PROCESS
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, 0, idle)
}

// openFile opens path, with the mode of a log file if it makes one.
func openFile(path string, flags int) (fd int, err error) {
	err = retryEINTR(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o640)
		return err
	})
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// writeAt writes p into a regular file at offset and returns how much of it is there.
func writeAt(fd int, p []byte, offset int64) (n int, err error) {
	err = retryEINTR(func() (err error) {
		n, err = unix.Pwrite(fd, p, offset)
		return err
	})
	return max(n, 0), err
}

// write writes p to what is not a regular file and returns how much of it is taken. It waits where that stalls.
func write(fd int, p []byte) (n int, err error) {
	err = retryEINTR(func() (err error) {
		n, err = unix.Write(fd, p)
		return err
	})
	return max(n, 0), err
}

// setBlocking has calls on fd wait.
func setBlocking(fd int) error { return os.NewSyscallError("fcntl", unix.SetNonblock(fd, false)) }

// readAt reads into p from a regular file at offset, and less at its end.
func readAt(fd int, p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		var got int
		err := retryEINTR(func() (err error) {
			got, err = unix.Pread(fd, p[n:], offset+int64(n))
			return err
		})
		if got <= 0 {
			return n, err
		}
		n += got
	}
	return n, nil
}

// endsLine reports whether the byte before offset is a newline, in an open file that need not be open for reading.
func endsLine(fd int, offset int64) (bool, error) {
	last, err := readEnd(fd, offset, 1)
	return len(last) > 0 && last[0] == '\n', err
}

// readEnd returns the last bytes before offset, at most that many, of an open file that need not be open for reading.
func readEnd(fd int, offset, most int64) ([]byte, error) {
	read, err := openFD(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("read the end of what is there: %w", err)
	}
	defer closeFD(read)
	p := make([]byte, min(offset, most))
	n, err := readAt(read, p, offset-int64(len(p)))
	return p[:n], err
}

// changeOwner gives an open file other owners.
func changeOwner(fd int, uid, gid uint32) error { return unix.Fchown(fd, int(uid), int(gid)) }

// changeMode gives an open file another mode, whatever the umask is.
func changeMode(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }

// truncate cuts an open file off.
func truncate(fd int, size int64) error {
	return os.NewSyscallError("ftruncate", retryEINTR(func() error { return unix.Ftruncate(fd, size) }))
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

func retryEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
