package pipe

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// MakeFIFO makes a FIFO at path, mode 0600 and owned by uid and gid, and returns its read end. It
// replaces what is at path, such as an old FIFO, a socket or a file. A directory there is an error.
// It may block on the file system.
//
// The read end is open for reading and writing, non-blocking and close-on-exec. It never gets an
// end of file or a hang-up when a writer closes. The content of the pipe exists while it is open
// (fifo(7)).
func MakeFIFO(path string, uid, gid int) (fd int, err error) {
	if err := mkfifo(path); err != nil {
		return -1, fmt.Errorf("make FIFO %s: %w", path, err)
	}
	fd, err = syscalls.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return -1, fmt.Errorf("open FIFO %s: %w", path, err)
	}
	if err := chownNew(fd, uid, gid); err != nil {
		syscalls.Close(fd)
		return -1, fmt.Errorf("own FIFO %s: %w", path, err)
	}
	return fd, nil
}

// AdoptFIFO opens the FIFO that a predecessor made at path, as [MakeFIFO] does. The content of its
// pipe is still there if any process has it open. It is an error if path is not a FIFO with mode
// 0600, or belongs to another user, unless superd is root. It may block on the file system.
func AdoptFIFO(path string) (fd int, err error) {
	fd, err = adoptFIFO(path)
	if err != nil {
		return -1, fmt.Errorf("adopt FIFO %s: %w", path, err)
	}
	return fd, nil
}

func adoptFIFO(path string) (int, error) {
	// O_PATH, as opening a device may have an effect
	found, err := syscalls.Open(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	defer syscalls.Close(found)
	var st unix.Stat_t
	if err := unix.Fstat(found, &st); err != nil {
		return -1, err
	}
	euid := os.Geteuid()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFIFO:
		return -1, errors.New("it is not a FIFO")
	case st.Mode&0o7777 != 0o600:
		return -1, fmt.Errorf("its mode is %o, not 600", st.Mode&0o7777)
	case euid != 0 && int(st.Uid) != euid: // root's FIFOs belong to the users of the programs
		return -1, fmt.Errorf("it belongs to user %d", st.Uid)
	}
	fd, err := syscalls.Open(fmt.Sprintf("/proc/self/fd/%d", found), unix.O_RDWR|unix.O_NONBLOCK)
	if err == nil {
		SetMark(fd, UnknownMark)
	}
	return fd, err
}

// ChownFIFO changes the owners of the FIFO with read end readFD to uid and gid. A program opens its
// /dev/stdout with the rights of its user, which may differ from that of the last start. It may
// block on the file system.
func ChownFIFO(readFD, uid, gid int) error {
	if err := chownFIFO(readFD, uid, gid); err != nil {
		return fmt.Errorf("own FIFO: %w", err)
	}
	return nil
}

// OpenWriter returns a program's end of the FIFO with read end readFD. It is blocking and
// close-on-exec. It has an open file description of its own, so the program can't change the flags
// of the read end. It is open for reading, too, so the program gets no SIGPIPE while no supervisor
// runs.
func OpenWriter(readFD int) (fd int, err error) {
	fd, err = syscalls.Open(fmt.Sprintf("/proc/self/fd/%d", readFD), unix.O_RDWR)
	if err != nil {
		return -1, fmt.Errorf("open writer of FIFO: %w", err)
	}
	return fd, nil
}

// OpenReader returns a program's end of a FIFO that the program reads. fd is that FIFO, open for
// reading and writing. The result is blocking and close-on-exec, with an open file description of
// its own. It gets the end of file when no process has the FIFO open for writing.
func OpenReader(fd int) (reader int, err error) {
	reader, err = syscalls.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY)
	if err != nil {
		return -1, fmt.Errorf("open reader of FIFO: %w", err)
	}
	return reader, nil
}

// mkfifo removes what is at path and makes a FIFO there.
func mkfifo(path string) error {
	for {
		err := unix.Mkfifo(path, 0o600)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return errors.New("it is a directory: remove it")
		}
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("replace existing file: %w", err)
		}
	}
}

// chownNew makes sure that fd is the FIFO just made, and changes its owners to uid and gid.
func chownNew(fd, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || int(st.Uid) != os.Geteuid() {
		return errors.New("it was replaced by another file")
	}
	return chownUnlessOwned(fd, &st, uid, gid)
}

// chownFIFO changes the owners of fd if it has others.
func chownFIFO(fd, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return chownUnlessOwned(fd, &st, uid, gid)
}

func chownUnlessOwned(fd int, st *unix.Stat_t, uid, gid int) error {
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	return unix.Fchown(fd, uid, gid)
}

// A Mark is a small number that is stored in the open file description of a read end, for a
// successor: what it means is the caller's, except for those below.
type Mark uint8

const (
	Unmarked    Mark = 0 // the mark of a new FIFO
	UnknownMark Mark = 9 // the mark of a FIFO that was found by its path, or can't be read
	MaxMark     Mark = 10
)

// SetMark stores a mark. The number of the signal for input (fcntl(2), F_SETSIG) holds it, which is
// otherwise unused. It never blocks.
func SetMark(readFD int, m Mark) {
	if MarkOf(readFD) == m {
		return
	}
	// it fails only for want of kernel memory
	_, _ = unix.FcntlInt(uintptr(readFD), unix.F_SETSIG, int(m))
}

// MarkOf returns the mark of a read end.
func MarkOf(readFD int) Mark {
	n, err := unix.FcntlInt(uintptr(readFD), unix.F_GETSIG, 0)
	if err != nil || n > int(MaxMark) {
		return UnknownMark
	}
	return Mark(n)
}
