package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/internal/syscalls"
)

// tryLock opens or creates the file, and locks it unless another process has.
func tryLock(path string) (f *os.File, locked bool, err error) {
	for {
		if f, err = openLock(path); err != nil {
			return nil, false, err
		}
		switch err = flock(f); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return f, false, nil
		case err != nil:
			f.Close()
			return nil, false, &os.PathError{Op: "lock", Path: path, Err: err}
		case isNamed(f, path):
			return f, true, nil
		}
		f.Close() // its last owner has removed it since
	}
}

// flock locks an open file unless another process has. The error is unix.EWOULDBLOCK then.
func flock(f *os.File) error {
	return syscalls.Retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
}

// openLock opens a file to be locked. Only its owner may open it: any process that has it open
// could lock it.
func openLock(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	return os.OpenFile(path, flags, 0o600)
}

// isNamed reports whether path still names the open file.
func isNamed(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// lockedBy returns a text that names the process which has locked the open file, as far as /proc
// shows it.
//
// Source: proc_locks(5).
func lockedBy(path string, f *os.File) string {
	const unknown = "another process"
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return unknown
	}
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return unknown
	}
	inode := strconv.FormatUint(st.Ino, 10)
	for line := range strings.Lines(string(text)) {
		// "1: FLOCK ADVISORY WRITE 4711 00:1a:5678 0 EOF"; one with "->" is of a process that
		// waits.
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || !strings.HasSuffix(fields[5], ":"+inode) {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err == nil && pid > 0 && procfs.HoldsFile(pid, path) {
			return processText(pid)
		}
	}
	return unknown
}

// processText returns a text that names a process by its pid, and by its command if it is known.
func processText(pid int) string {
	if s, err := procfs.ReadStat(pid); err == nil {
		return fmt.Sprintf("process %d (%s)", pid, s.Command)
	}
	return fmt.Sprintf("process %d", pid)
}

// logLockWait logs that another process has locked the file.
func logLockWait(log *slog.Logger, path string, f *os.File) {
	log.Warn("waiting for the runtime directory: another process holds its lock",
		"file", path, "by", lockedBy(path, f))
}
