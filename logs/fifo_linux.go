package logs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MakeFIFO makes a FIFO at path, mode 0600 and owned by uid and gid, and returns its read end. What else lies at path
// is replaced, be it a FIFO left over, a socket or a file; a directory is an error. It may block on the file system.
//
// The read end is opened for reading and writing, non-blocking and close-on-exec: it never sees an end of file, nor a
// hang-up when a writer closes, and what is in the pipe stays there as long as it is open (fifo(7)).
func MakeFIFO(path string, uid, gid int) (fd int, err error) {
	if err := mkfifo(path); err != nil {
		return -1, fmt.Errorf("make FIFO %s: %w", path, err)
	}
	fd, err = openFD(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("open FIFO %s: %w", path, err)
	}
	if err := own(fd, uid, gid); err != nil {
		closeFD(fd)
		return -1, fmt.Errorf("own FIFO %s: %w", path, err)
	}
	return fd, nil
}

// GiveFIFO makes uid and gid the owners of the FIFO whose read end is readFD: a program opens its /dev/stdout anew by
// the rights of its user, which may be another one than at its last start. It may block on the file system.
func GiveFIFO(readFD, uid, gid int) error {
	if err := give(readFD, uid, gid); err != nil {
		return fmt.Errorf("own FIFO: %w", err)
	}
	return nil
}

// OpenWriter returns a program's end of the FIFO whose read end is readFD: blocking, close-on-exec, and a description
// of its own, so that the program can't change the flags of the read end. It is open for reading, too, so that the
// program gets no SIGPIPE while no superd lives.
func OpenWriter(readFD int) (fd int, err error) {
	fd, err = openFD(fmt.Sprintf("/proc/self/fd/%d", readFD), unix.O_RDWR)
	if err != nil {
		return -1, fmt.Errorf("open writer of FIFO: %w", err)
	}
	return fd, nil
}

// mkfifo makes a FIFO, removing first what is there.
func mkfifo(path string) error {
	for {
		err := unix.Mkfifo(path, 0o600)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return errors.New("a directory lies there: remove it")
		}
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("replace what lies there: %w", err)
		}
	}
}

// own makes sure that fd is the FIFO just made and gives it to uid and gid.
func own(fd, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || int(st.Uid) != os.Geteuid() {
		return errors.New("someone put something else there")
	}
	return give(fd, uid, gid)
}

// give changes the owners of fd if it has others.
func give(fd, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	return unix.Fchown(fd, uid, gid)
}

func openFD(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// closeFD closes fd, which may be -1. Errors of close concern writers.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// readPipe reads what is in the pipe into p. It returns 0 when the pipe is empty.
func readPipe(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// pipeBytes returns how many bytes are in the pipe. TIOCINQ, also known as FIONREAD, does not fail on one.
func pipeBytes(fd int) int64 {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		panic(fmt.Sprintf("count bytes in pipe %d: %v", fd, err))
	}
	return int64(n)
}
