package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/internal/syscalls"
)

// A superd locks turnFile while it examines the lock file and may replace it. The turn file stays
// until the orderly end: a full disk must not keep a successor from starting. It is not the
// directory itself, which any user may open, and so lock, if its mode is 0755.

const (
	// turnPatience is how long to wait for another process that holds the turn. A superd that waits
	// for the lock holds it for lockPatience at most.
	turnPatience = 3 * time.Second
	logAfter     = 500 * time.Millisecond // a longer wait is logged
	lockInterval = 10 * time.Millisecond  // between two attempts
)

// A HeldError is a turn file that another process holds locked, so that the runtime directory can't
// be taken.
type HeldError struct {
	File string
	By   string // such as "process 4711 (flock)"; "another process" if it can't be seen
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lock runtime directory %s: %s has held %s for %v: end it, or choose another "+
		"directory with --runtime-dir", filepath.Dir(e.File), e.By, e.File, turnPatience)
}

// takeTurn locks the turn file. It waits for another superd for turnPatience at most, and returns a
// [HeldError] after that.
func takeTurn(dir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, turnFile)
	began, logged := time.Now(), false
	for {
		turn, locked, err := tryLock(path)
		if err != nil || locked {
			return turn, err
		}
		switch waited := time.Since(began); {
		case waited > turnPatience:
			by := lockedBy(path, turn)
			turn.Close()
			return nil, &HeldError{path, by}
		case waited > logAfter && !logged:
			logged = true
			logWait(log, path, turn)
		}
		turn.Close()
		time.Sleep(lockInterval)
	}
}

// logWait logs that another process holds the lock on a file.
func logWait(log *slog.Logger, path string, f *os.File) {
	log.Warn("waiting for the runtime directory: another process holds its lock",
		"file", path, "by", lockedBy(path, f))
}

// tryLock opens the file, which it makes if there is none, and locks it unless another process has.
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

// removeTurn removes the turn file, unless another superd holds it: then that one removes it in the
// end.
func removeTurn(dir string) error {
	path := filepath.Join(dir, turnFile)
	turn, locked, err := tryLock(path)
	if err != nil {
		return err
	}
	defer turn.Close()
	if !locked {
		return nil
	}
	return os.Remove(path)
}

// lockedBy returns a text that names the process with a lock on the open file, as far as /proc
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
