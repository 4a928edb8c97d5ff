package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/internal/syscalls"
)

// A BusyError says that another superd has locked the runtime directory.
type BusyError struct {
	Path       string
	Pid        int  // of the other superd; 0: unknown
	KeeperOnly bool // Pid is a keeper that is about to start a supervisor
	Foreign    bool // Pid is of another PID namespace, as a container has, or of another machine
}

func (e *BusyError) Error() string {
	other := "another superd"
	if e.Pid > 0 {
		other += fmt.Sprintf(" (pid %d)", e.Pid)
	}
	if e.Foreign {
		return fmt.Sprintf("lock runtime directory %s: %s holds it in another PID namespace, such as a "+
			"container's, or on another machine: stop it there, or choose another directory with "+
			"--runtime-dir", e.Path, other)
	}
	if e.KeeperOnly {
		return fmt.Sprintf("lock runtime directory %s: the supervisor there has ended, and its keeper "+
			"(pid %d) is about to start another: wait for that, end the keeper with `kill %d`, or "+
			"choose another directory with --runtime-dir", e.Path, e.Pid, e.Pid)
	}
	return fmt.Sprintf("lock runtime directory %s: %s runs there; stop it with `superd ctl "+
		"--runtime-dir %s shutdown`, or choose another directory with --runtime-dir",
		e.Path, other, e.Path)
}

// lockFile is the name of the lock file in the runtime directory.
const lockFile = "superd.lock"

// lockTimeout is how long a killed owner may still have the lock: until the kernel has ended all
// its threads, and all its children between fork and exec.
const lockTimeout = 2 * time.Second

// takeLock opens and locks the lock file of the directory, and writes its owner into it.
//
// The content of the file decides who owns the directory, not the lock alone:
//   - Children of a dead superd between fork and exec have the lock, too. takeLock kills them; if
//     one does not die, takeLock replaces the file.
//   - No process has the lock while a keeper is about to start the next supervisor, and while
//     superd executes another binary.
//
// An owner in another PID namespace can't be examined: there the lock decides.
func takeLock(dir string, keeper int, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	turn, err := lockTurn(dir, log)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	var busy *BusyError
	logged := false
	for began := time.Now(); ; time.Sleep(lockInterval) {
		lock, free, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		record := readLock(lock)
		if waited := time.Since(began); !free {
			if waited > logAfter && !logged {
				logged = true
				logLockWait(log, path, lock)
			}
			lock.Close() // otherwise this process counts as its owner
		}
		if owner := record.owner(path, free); owner != nil {
			lock.Close()
			if busy != nil && *busy == *owner { // in the first attempt it may be about to end
				owner.Path = dir
				return nil, owner
			}
			busy = owner
			continue
		}
		if free {
			if err := errors.Join(lock.Truncate(0), writeAt(lock, lockText(os.Getpid(), keeper))); err != nil {
				lock.Close()
				return nil, err
			}
			return lock, nil
		}
		switch late := time.Since(began) > lockTimeout; {
		case late && record.foreign:
			return nil, &BusyError{Path: dir, Pid: record.supervisor, Foreign: true}
		case late && record.supervisor == 0: // the format of another version
			return nil, &BusyError{Path: dir}
		case late:
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		case record.supervisor > 0 && !record.foreign:
			killUnexeced(path)
		}
	}
}

// A lockRecord is the content of a lock file: its last owner.
type lockRecord struct {
	supervisor int          // pid; 0: unknown
	owners     []processKey // supervisor and keeper; none if the boot is unknown or another one
	foreign    bool         // the pids are of another PID namespace or of another boot
}

// A processKey identifies a process of this boot.
type processKey struct {
	pid   int
	start uint64 // clock ticks since boot
}

// lockText returns the content of the lock file: the supervisor's pid; then the boot id, pid and
// start time of supervisor and keeper, and the PID namespace.
func lockText(supervisor, keeper int) string {
	boot, err := procfs.BootID()
	text := strconv.Itoa(supervisor) + "\n" + boot
	for _, pid := range []int{supervisor, keeper} {
		if s, e := procfs.ReadStat(pid); err == nil && e == nil {
			text += fmt.Sprintf(" %d:%d", pid, s.Start)
		}
	}
	return text + " " + pidNamespace() + "\n"
}

// readLock parses the content of a lock file.
func readLock(lock *os.File) *lockRecord {
	r := &lockRecord{}
	buf := make([]byte, 256)
	n, _ := lock.ReadAt(buf, 0)
	first, rest, _ := strings.Cut(string(buf[:n]), "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && pid > 0 {
		r.supervisor = pid
	}
	boot, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	now, err := procfs.BootID()
	if err != nil || boot == "" {
		return r
	}
	if boot != now {
		r.foreign = true
		return r
	}
	for field := range strings.FieldsSeq(rest) {
		var key processKey
		if n, _ := fmt.Sscanf(field, "%d:%d", &key.pid, &key.start); n == 2 {
			r.owners = append(r.owners, key)
		}
		own := pidNamespace()
		if strings.HasPrefix(field, namespacePrefix) && own != "" && field != own {
			r.foreign = true
		}
	}
	return r
}

// owner returns the live owner of a lock file, nil if there is none. free: the file is not locked,
// so that only a keeper can own it.
func (r *lockRecord) owner(path string, free bool) *BusyError {
	if r.foreign {
		return nil // the pids are those of other processes here
	}
	if i := slices.IndexFunc(r.owners, isOtherSuperd); i >= 0 {
		pid := r.owners[i].pid
		return &BusyError{Pid: pid, KeeperOnly: free || pid != r.supervisor}
	}
	if free {
		return nil
	}
	// The record has no start time if the boot was unknown. A process that was killed does not
	// count: it may take long to close its files.
	pid := r.supervisor
	if pid > 0 && pid != os.Getppid() && !procfs.Killed(pid) && procfs.HoldsFile(pid, path) {
		return &BusyError{Pid: pid}
	}
	return nil
}

// isOtherSuperd reports whether a process is alive and neither this one nor its parent, the keeper.
func isOtherSuperd(key processKey) bool {
	if key.pid == os.Getpid() || key.pid == os.Getppid() {
		return false
	}
	s, err := procfs.ReadStat(key.pid)
	return err == nil && s.Start == key.start && !s.Dead && !procfs.Killed(key.pid)
}

// killUnexeced kills the processes that run superd's binary and have the lock file open, except
// this one and its parent, the keeper. They are children between fork and exec, and have not run
// any code of their program.
func killUnexeced(lock string) {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	pids, err := procfs.Pids()
	if err != nil {
		return
	}
	name := func(exe string) string { return filepath.Base(strings.TrimSuffix(exe, " (deleted)")) }
	for _, pid := range pids {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || name(exe) != name(own) || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		s, err := procfs.ReadStat(pid)
		if err != nil || procfs.Killed(pid) || !procfs.HoldsFile(pid, lock) {
			continue
		}
		if p, err := procfs.OpenProcess(&s); err == nil {
			p.Signal(unix.SIGKILL)
			p.Close()
		}
	}
}

const namespacePrefix = "pid:["

// pidNamespace returns the name of this process's PID namespace, such as pid:[4026531836]; "" if it
// is unknown.
//
// Source: namespaces(7).
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// turnFile is the name of the turn file. A superd locks it while it examines the lock file and may
// replace that. The turn file stays until the orderly end: a full disk must not prevent a successor
// from starting. superd does not lock the directory itself: if its mode is 0755, any user may open
// it, and so lock it.
const turnFile = "superd.turn"

const (
	// turnTimeout is how long to wait for another process that has locked the turn file. A superd
	// that waits for the lock file has it locked for lockTimeout at most.
	turnTimeout  = 3 * time.Second
	logAfter     = 500 * time.Millisecond // a longer wait is logged
	lockInterval = 10 * time.Millisecond  // between two attempts
)

// A HeldError says that another process has locked the turn file, so that the runtime directory
// can't be used.
type HeldError struct {
	File string
	By   string // such as "process 4711 (flock)"; "another process" if it can't be seen
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lock runtime directory %s: %s has held %s for %v: end it, or choose another "+
		"directory with --runtime-dir", filepath.Dir(e.File), e.By, e.File, turnTimeout)
}

// lockTurn locks the turn file. It waits for another superd for turnTimeout at most, and returns a
// [HeldError] after that.
func lockTurn(dir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, turnFile)
	began, logged := time.Now(), false
	for {
		turn, locked, err := tryLock(path)
		if err != nil || locked {
			return turn, err
		}
		switch waited := time.Since(began); {
		case waited > turnTimeout:
			by := lockedBy(path, turn)
			turn.Close()
			return nil, &HeldError{path, by}
		case waited > logAfter && !logged:
			logged = true
			logLockWait(log, path, turn)
		}
		turn.Close()
		time.Sleep(lockInterval)
	}
}

// removeTurn removes the turn file, unless another superd has locked it: that one removes it later.
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
