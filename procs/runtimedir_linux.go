package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/procs/eventlog"
	"superd/procs/journal"
)

const (
	fifoDir  = "fifo"
	lockFile = "superd.lock"
)

// A RuntimeDir is the directory of one superd, held by its lock.
type RuntimeDir struct {
	Path string
	// Unclean tells that the last superd there did not come to an orderly end.
	Unclean bool

	lock *os.File
	made bool // by this superd
	left bool // see Leave
	keep bool // see KeepJournal
}

// A BusyError is a runtime directory that another superd holds.
type BusyError struct {
	Path    string
	Pid     int  // of the other one; 0 when it is not known
	Between bool // it is a keeper that is about to start a supervisor
	// Elsewhere tells that it is in another PID namespace, such as a container, or on another machine: the pid, if known, is one there.
	Elsewhere bool
}

func (e *BusyError) Error() string {
	who := "another superd"
	if e.Pid > 0 {
		who += fmt.Sprintf(" (pid %d)", e.Pid)
	}
	if e.Elsewhere {
		return fmt.Sprintf("lock runtime directory %s: %s holds it in another PID namespace, such as a container's, or on another machine: stop it there, or choose another directory with --runtime-dir", e.Path, who)
	}
	if e.Between {
		return fmt.Sprintf("lock runtime directory %s: the supervisor there has ended, and its keeper (pid %d) is about to start the next one: leave it to that, or end it by `kill %d`, or choose another directory with --runtime-dir",
			e.Path, e.Pid, e.Pid)
	}
	return fmt.Sprintf("lock runtime directory %s: %s runs there; stop it with `superd ctl --runtime-dir %s shutdown`, or choose another directory with --runtime-dir", e.Path, who, e.Path)
}

// OpenRuntimeDir makes the directory if it is not there, 0711 for the programs' sake, and locks it for this process and its keeper, whose
// pid is 0 where there is none.
func OpenRuntimeDir(path string, keeper int) (*RuntimeDir, error) {
	const remedy = "choose another with --runtime-dir or runtime_dir in the configuration"
	_, err := os.Lstat(path)
	made := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, fmt.Errorf("make runtime directory %s: %w; %s", path, cause(err), remedy)
	}
	if made {
		if err := os.Chmod(path, 0o711); err != nil { // whatever the umask
			return nil, fmt.Errorf("make runtime directory %s: %w", path, cause(err))
		}
	}
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return nil, fmt.Errorf("examine runtime directory %s: %w", path, err)
	}
	switch uid := os.Geteuid(); {
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK && stat.Uid != uint32(uid) && stat.Uid != 0:
		return nil, fmt.Errorf("open runtime directory %s: it is a symbolic link of user %d; %s", path, stat.Uid, remedy)
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR && stat.Uid != uint32(uid):
		return nil, fmt.Errorf("open runtime directory %s: it belongs to user %d, not to us (%d); %s", path, stat.Uid, uid, remedy)
	}
	// Its name is compared with that in the programs' environments: two names for one directory must not count as two.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("examine runtime directory: %w", err)
	}
	_, err = os.Lstat(filepath.Join(path, lockFile))
	unclean := err == nil
	lock, err := takeLock(path, keeper)
	if busy, ok := errors.AsType[*BusyError](err); ok {
		return nil, busy
	}
	if err != nil {
		return nil, fmt.Errorf("write runtime directory %s: %w; %s", path, cause(err), remedy)
	}
	for _, name := range []string{fifoDir, notifyDir} {
		dir := filepath.Join(path, name)
		if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
			lock.Close()
			return nil, fmt.Errorf("write runtime directory %s: %w; %s", path, cause(err), remedy)
		}
	}
	return &RuntimeDir{Path: path, Unclean: unclean, lock: lock, made: made}, nil
}

// lockPatience is how long a lock may be held whose owner was killed: by himself, until the kernel has ended all his threads, and by
// a child that he was spawning, until it is dead, too.
const lockPatience = 2 * time.Second

// takeLock opens and locks the lock file of the directory, and writes into it who has it. That is told by what is in it, not by the lock: the lock may also
// be held by children whom a dead superd has forked and who have not executed their programs yet. Those are killed; one that the kernel doesn't let die keeps
// the old file. And nobody may hold it while a keeper is about to start the next supervisor, or while superd executes another binary. Whoever holds it in
// another PID namespace can't be looked at, so there it is the lock that tells.
func takeLock(dir string, keeper int) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	turn, err := takeTurn(dir)
	if err != nil {
		return nil, err
	}
	defer turn.Close()
	var busy *BusyError
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(10 * time.Millisecond) {
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && !isStill(lock, path) { // its last owner removed it just now
			lock.Close()
			continue
		}
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			lock.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		said := readLock(lock)
		if err != nil {
			lock.Close() // or this process would hold it
		}
		if owner := said.owner(path, err == nil); owner != nil {
			lock.Close()
			if busy != nil && *busy == *owner { // at the first look it may just be dying
				owner.Path = dir
				return nil, owner
			}
			busy = owner
			continue
		}
		if err == nil {
			if err := errors.Join(lock.Truncate(0), writeAt(lock, lockText(os.Getpid(), keeper))); err != nil {
				lock.Close()
				return nil, err
			}
			return lock, nil
		}
		switch late := time.Now().After(deadline); {
		case late && said.elsewhere:
			return nil, &BusyError{Path: dir, Pid: said.pid(), Elsewhere: true}
		case late && len(said.pids) == 0: // a superd of another kind
			return nil, &BusyError{Path: dir}
		case late:
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		case len(said.pids) > 0 && !said.elsewhere:
			killSpawnsInFlight(path)
		}
	}
}

// A lockSays is what a lock file tells about who took it last.
type lockSays struct {
	pids      []int        // the supervisor's
	owners    []processKey // supervisor and keeper; none of another boot, or where the boot can't be told
	elsewhere bool         // they are numbers of another PID namespace, or of another boot
}

// owner returns who has a lock file, nil if nobody has. free tells that it is not locked: then only a keeper can have it.
func (l *lockSays) owner(path string, free bool) *BusyError {
	if l.elsewhere {
		return nil // whoever has these numbers here is somebody else
	}
	supervisor := func(pid int) bool { return slices.Contains(l.pids, pid) }
	if i := slices.IndexFunc(l.owners, isAnother); i >= 0 {
		return &BusyError{Pid: l.owners[i].pid, Between: free || !supervisor(l.owners[i].pid)}
	}
	if free {
		return nil
	}
	// One whose start time it does not tell, as in the first versions, or whose boot can't be told.
	for _, pid := range l.pids {
		if pid != os.Getppid() && !killed(pid) && holdsFile(pid, path) { // of one that is dying it may take long, with all that it had open
			return &BusyError{Pid: pid}
		}
	}
	return nil
}

// pid is the supervisor's; 0 if it is not known.
func (l *lockSays) pid() int {
	if len(l.pids) == 0 {
		return 0
	}
	return l.pids[0]
}

// takeTurn waits until no other superd is about to take the lock.
func takeTurn(dir string) (*os.File, error) {
	turn, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if _, err := retry(func() (int, error) { return 0, unix.Flock(int(turn.Fd()), unix.LOCK_EX) }); err != nil {
		turn.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return turn, nil
}

// killSpawnsInFlight kills those who run superd's binary and have the lock file open, though they are neither this superd nor its parent, the
// keeper: they have been forked and not executed their program yet, and have run no code of it.
func killSpawnsInFlight(lock string) {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	pids, err := allPids()
	if err != nil {
		return
	}
	name := func(exe string) string { return filepath.Base(strings.TrimSuffix(exe, " (deleted)")) }
	for _, pid := range pids {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || name(exe) != name(own) || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		if s, err := readStat(pid); err == nil && !killed(pid) && holdsFile(pid, lock) {
			if p, err := openProcess(&s); err == nil {
				p.Signal(unix.SIGKILL)
				p.Close()
			}
		}
	}
}

// holdsFile reports whether a process has the file open, or whether that can't be found out.
func holdsFile(pid int, path string) bool {
	links, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH)
	}
	return slices.ContainsFunc(links, func(link os.DirEntry) bool {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, link.Name()))
		return err == nil && target == path
	})
}

// isStill reports whether the open file is the one that path names.
func isStill(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// Close removes what superd made there, gives the lock back, and removes the directory if superd made it and nothing
// else is in it than the event log. Where the directory stays, so does the event log: the next superd goes on with it.
func (d *RuntimeDir) Close() error {
	if d.left {
		return d.lock.Close()
	}
	var err error
	if !d.keep {
		err = journal.Remove(d.Path)
	}
	err = errors.Join(
		err,
		os.RemoveAll(filepath.Join(d.Path, fifoDir)),
		os.RemoveAll(filepath.Join(d.Path, notifyDir)),
		os.Remove(d.lock.Name()),
		d.lock.Close(),
	)
	if d.made && !d.keep && eventlog.IsAlone(d.Path) {
		eventlog.Remove(d.Path)
		os.Remove(d.Path)
	}
	return err
}

// LockFD returns the descriptor that holds the lock. Who has been forked and has not executed his program has it, too: by that the next superd finds him.
func (d *RuntimeDir) LockFD() int { return int(d.lock.Fd()) }

// Leave has Close give the lock back and leave everything else as it is, where that is so: programs use it, and the next superd.
func (d *RuntimeDir) Leave(leave bool) { d.left = leave }

// KeepJournal has Close leave the journal, where that is so: the next superd must know what is in it.
func (d *RuntimeDir) KeepJournal(keep bool) { d.keep = keep }

// lockText is what the lock file says: the supervisor's pid, then the boot id, pid and start time of supervisor and keeper, and the PID namespace.
func lockText(pids ...int) string {
	boot, err := BootID()
	text := strconv.Itoa(pids[0]) + "\n" + boot
	for _, pid := range pids {
		if s, e := readStat(pid); err == nil && e == nil {
			text += fmt.Sprintf(" %d:%d", pid, s.start)
		}
	}
	return text + " " + pidNamespace() + "\n"
}

const namespacePrefix = "pid:["

// pidNamespace is the name of this process's PID namespace, pid:[4026531836], see namespaces(7); "" where it can't be told.
func pidNamespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// readLock returns what a lock file says.
func readLock(lock *os.File) *lockSays {
	l := &lockSays{}
	buf := make([]byte, 256)
	n, _ := lock.ReadAt(buf, 0)
	first, rest, _ := strings.Cut(string(buf[:n]), "\n")
	if pid, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && pid > 0 {
		l.pids = append(l.pids, pid)
	}
	boot, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	now, err := BootID()
	if err != nil || boot == "" {
		return l
	}
	if boot != now {
		l.elsewhere = true
		return l
	}
	for field := range strings.FieldsSeq(rest) {
		var key processKey
		if n, _ := fmt.Sscanf(field, "%d:%d", &key.pid, &key.start); n == 2 {
			l.owners = append(l.owners, key)
		}
		if own := pidNamespace(); strings.HasPrefix(field, namespacePrefix) && own != "" && field != own {
			l.elsewhere = true
		}
	}
	return l
}

// isAnother reports whether a process lives that is neither this one nor its parent.
func isAnother(key processKey) bool {
	if key.pid == os.Getpid() || key.pid == os.Getppid() {
		return false
	}
	s, err := readStat(key.pid)
	return err == nil && s.start == key.start && !s.dead && !killed(key.pid)
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

// cause strips operation and path from an error that names them already.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// PrepareLogDir makes the directory of the logs if it is not there, and says so early if it can't be written.
func PrepareLogDir(path string) error {
	const remedy = "choose another with log_dir in the configuration"
	if err := os.MkdirAll(path, 0o750); err != nil {
		return fmt.Errorf("make log directory %s: %w; %s", path, cause(err), remedy)
	}
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write log directory %s: %w; %s", path, err, remedy)
	}
	return nil
}
