package segment

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/safepath"
	"superd/internal/syscalls"
)

// An Identity identifies a file.
type Identity struct{ device, inode uint64 }

// An Info is what the package needs of stat(2).
type Info struct {
	Identity
	size      int64 // bytes
	allocated int64 // bytes on the disk
	charged   int64 // bytes on the disk that it counts for, see [chargedBytes]; at most size
	Changed   time.Time
	regular   bool
	named     bool // it still has a name

	uid, gid, mode uint32
}

// StatFD returns what fstat(2) reports of an open file.
func StatFD(fd int) (Info, error) {
	info, err := safepath.StatFD(fd)
	return newFileInfo(&info), err
}

func newFileInfo(info *safepath.Info) Info {
	return Info{
		Identity:  Identity{info.Device, info.Inode},
		size:      info.Size,
		allocated: info.Allocated,
		charged:   chargedBytes(info),
		Changed:   info.Changed,
		regular:   info.Mode.IsRegular(),
		named:     info.Links > 0,
		uid:       info.UID,
		gid:       info.GID,
		mode:      uint32(info.Mode.Perm()),
	}
}

// chargedBytes returns how many bytes on the disk a file counts for. Any user who may write to a
// directory of logs can make a huge file that is one hole, or give a file a thousand names. Those
// must not cause the removal of other logs. So holes do not count, and the size of a file is
// divided by the number of its names.
func chargedBytes(info *safepath.Info) int64 {
	return min(info.Size, info.Allocated) / int64(max(info.Links, 1))
}

// freeBytes returns how many bytes are free for all users on the file system of an open file.
func freeBytes(fd int) (int64, error) {
	var st unix.Statfs_t
	if err := syscalls.Retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// creationTime returns when an open file was made, in nanoseconds of Unix time. If the file system
// does not record that, it returns otherwise.
func creationTime(fd int, otherwise int64) int64 {
	var st unix.Statx_t
	err := syscalls.Retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st) })
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return otherwise
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}

// lowerPriority locks the goroutine to a thread, which gets only processor and disk time that no
// other thread needs. The thread ends with the goroutine.
func lowerPriority() {
	runtime.LockOSThread()
	const idle, ofThread = 3 << 13, 1 // IOPRIO_CLASS_IDLE, IOPRIO_WHO_PROCESS
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofThread, 0, idle)
}

// writeAt writes p into a regular file at offset and returns how many bytes were written.
func writeAt(fd int, p []byte, offset int64) (n int, err error) {
	err = syscalls.Retry(func() (err error) {
		n, err = unix.Pwrite(fd, p, offset)
		return err
	})
	return max(n, 0), err
}

func setBlocking(fd int) error { return os.NewSyscallError("fcntl", unix.SetNonblock(fd, false)) }

// readAt fills p from a regular file at offset, with less at its end.
func readAt(fd int, p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		var got int
		err := syscalls.Retry(func() (err error) {
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

// endsLine reports whether the byte before offset is a newline, in an open file that need not be
// open for reading.
func endsLine(fd int, offset int64) (bool, error) {
	last, err := readEnd(fd, offset, 1)
	return len(last) > 0 && last[0] == '\n', err
}

// readEnd returns at most most bytes before offset, of an open file that need not be open for
// reading.
func readEnd(fd int, offset, limit int64) ([]byte, error) {
	read, err := syscalls.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("read its end: %w", err)
	}
	defer syscalls.Close(read)
	p := make([]byte, min(offset, limit))
	n, err := readAt(read, p, offset-int64(len(p)))
	return p[:n], err
}

func changeOwner(fd int, uid, gid uint32) error { return unix.Fchown(fd, int(uid), int(gid)) }

// changeMode changes the mode of an open file, regardless of the umask.
func changeMode(fd int, mode uint32) error { return unix.Fchmod(fd, mode) }

func truncate(fd int, size int64) error {
	return os.NewSyscallError("ftruncate", syscalls.Retry(func() error { return unix.Ftruncate(fd, size) }))
}
