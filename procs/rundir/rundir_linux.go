// Package rundir opens the runtime directory of superd and locks it for one superd at a time.
package rundir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"superd/internal/safepath"
	"superd/procs/eventlog"
	"superd/procs/journal"
)

// Names in the runtime directory.
const (
	fifoDir   = "fifo"
	notifyDir = "notify"
	keyFile   = "notify.key"
)

// AlertsDir is the name of the directory with the states of the receivers of alerts.
const AlertsDir = "alerts"

// A Dir is the runtime directory of this superd, which has locked it.
type Dir struct {
	Path    string // without symbolic links
	Unclean bool   // the predecessor did not shut down in order

	FIFODir   string // directory of the programs' FIFOs
	NotifyDir string // directory of the notify sockets
	// NotifyKey is the secret from which the names of notify sockets are made. A successor gets the
	// same key, unless the directory was closed in order.
	NotifyKey []byte

	lock        *os.File
	created     bool // by this superd
	keepFiles   bool // see KeepFiles
	keepJournal bool // see KeepJournal
}

// Open creates the directory if it does not exist, and locks it for this process and its keeper.
// keeper is a pid; 0: none. Open logs which process it waits for.
//
// The mode of the directory is 0711, so that programs can reach FIFOs and sockets. Only root and
// superd's user may write or replace it: superd opens journal, lock, FIFOs and sockets there as
// root. Otherwise Open returns an error to root; if programs are alive that need a superd
// (resumed), it logs a warning instead.
//
// It returns a [BusyError] or a [HeldError] if another process has locked the directory.
func Open(path string, keeper int, resumed bool, log *slog.Logger) (*Dir, error) {
	const remedy = "choose another with --runtime-dir or runtime_dir in the configuration"
	_, err := os.Lstat(path)
	created := errors.Is(err, os.ErrNotExist)
	opened, err := safepath.MakeDir(path, 0o711)
	if err != nil {
		return nil, fmt.Errorf("make runtime directory %s: %w; %s", path, cause(err), remedy)
	}
	defer func() { opened.Close() }()
	if created {
		// The umask may have removed permissions.
		if err := os.Chmod(fmt.Sprintf("/proc/self/fd/%d", opened.FD()), 0o711); err != nil {
			return nil, fmt.Errorf("make runtime directory %s: %w", path, cause(err))
		}
	}
	if err := checkOwner(path, remedy); err != nil {
		return nil, err
	}
	if opened.Exposed() != "" && os.Geteuid() == 0 && !resumed {
		if opened, err = restrictEmpty(opened, path); err != nil {
			return nil, fmt.Errorf("make runtime directory %s: %w; %s", path, cause(err), remedy)
		}
	}
	if exposed := opened.Exposed(); exposed != "" && os.Geteuid() == 0 {
		if !resumed {
			return nil, fmt.Errorf("open runtime directory %s: %s, and could replace files that superd "+
				"opens as root: run chmod go-w, or %s", path, exposed, remedy)
		}
		log.Warn("other users may replace files that superd opens as root in its runtime directory",
			"path", path, "because", exposed)
	}
	// The path is compared with the one in the environment tags of processes: it must be unique.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("examine runtime directory: %w", err)
	}
	_, err = os.Lstat(filepath.Join(path, lockFile))
	d := &Dir{
		Path: path, Unclean: err == nil, created: created,
		FIFODir: filepath.Join(path, fifoDir), NotifyDir: filepath.Join(path, notifyDir),
	}
	d.lock, err = takeLock(path, keeper, log)
	if busy, ok := errors.AsType[*BusyError](err); ok {
		return nil, busy
	}
	if held, ok := errors.AsType[*HeldError](err); ok {
		return nil, held
	}
	if err != nil {
		return nil, fmt.Errorf("write runtime directory %s: %w; %s", path, cause(err), remedy)
	}
	if err := d.createContents(); err != nil {
		d.lock.Close()
		return nil, fmt.Errorf("write runtime directory %s: %w; %s", path, cause(err), remedy)
	}
	return d, nil
}

// checkOwner returns an error if a runtime directory, or a symbolic link to it, belongs to another
// user.
func checkOwner(path, remedy string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fmt.Errorf("examine runtime directory %s: %w", path, err)
	}
	switch uid := os.Geteuid(); {
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK && stat.Uid != uint32(uid) && stat.Uid != 0:
		return fmt.Errorf("open runtime directory %s: it is a symbolic link of user %d; %s",
			path, stat.Uid, remedy)
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR && stat.Uid != uint32(uid):
		return fmt.Errorf("open runtime directory %s: it belongs to user %d, not to superd's user %d; %s",
			path, stat.Uid, uid, remedy)
	}
	return nil
}

// createContents creates what the directory lacks. Other users can enter the directories in it, but
// not list them.
func (d *Dir) createContents() (err error) {
	for _, dir := range []string{d.FIFODir, d.NotifyDir} {
		if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
			return err
		}
	}
	d.NotifyKey, err = notifyKey(d.Path)
	return err
}

// restrictEmpty removes the write permission of other users from an empty directory, such as a
// tmpfs or volume that a container engine has mounted, and reopens it. It does not reopen a
// directory in which another user has created a file meanwhile. A directory with files stays as it
// is.
func restrictEmpty(dir *safepath.Dir, path string) (*safepath.Dir, error) {
	if names, err := dir.Names(); err != nil || len(names) > 0 {
		return dir, err
	}
	fd := fmt.Sprintf("/proc/self/fd/%d", dir.FD())
	if err := os.Chmod(fd, 0o711); err != nil {
		return dir, err
	}
	if names, err := dir.Names(); err != nil || len(names) > 0 {
		return dir, err
	}
	restricted, err := safepath.MakeDir(path, 0o711)
	if err != nil {
		return dir, err
	}
	dir.Close()
	return restricted, nil
}

// notifyKeyBytes is the size of keyFile.
const notifyKeyBytes = 32

// notifyKey returns the key in the directory, and creates one if there is none. The caller has
// locked the directory.
func notifyKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	if key, err := os.ReadFile(path); err == nil && len(key) == notifyKeyBytes {
		return key, nil
	}
	key := make([]byte, notifyKeyBytes)
	rand.Read(key)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(key)
	return key, errors.Join(err, file.Close())
}

// Close removes what superd created in the directory, and releases the lock. It removes the
// directory and the event log, too, if superd created the directory and nothing else is in it.
// Otherwise the event log stays for the successor.
func (d *Dir) Close() error {
	if d.keepFiles {
		return d.lock.Close()
	}
	var err error
	if !d.keepJournal {
		err = journal.Remove(d.Path)
	}
	err = errors.Join(
		err,
		os.RemoveAll(d.FIFODir),
		os.RemoveAll(d.NotifyDir),
		os.Remove(filepath.Join(d.Path, keyFile)),
		removeTurn(d.Path),
		os.Remove(d.lock.Name()),
		d.lock.Close(),
	)
	if d.created && !d.keepJournal && eventlog.IsAlone(d.Path, AlertsDir) {
		os.RemoveAll(filepath.Join(d.Path, AlertsDir))
		eventlog.Remove(d.Path)
		os.Remove(d.Path)
	}
	return err
}

// LockFD returns the descriptor of the lock. A child has it open between fork and exec: so a
// successor finds children that a crash left before their exec.
func (d *Dir) LockFD() int { return int(d.lock.Fd()) }

// KeepFiles sets whether Close only releases the lock, since programs and a successor use the
// files.
func (d *Dir) KeepFiles(keep bool) { d.keepFiles = keep }

// KeepJournal sets whether Close keeps the journal for the successor.
func (d *Dir) KeepJournal(keep bool) { d.keepJournal = keep }

// cause removes operation and path from an error: the message around it has them.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// PrepareLogDir makes the log directory if it does not exist. It returns an error if superd can't
// write it.
func PrepareLogDir(path string) error {
	const remedy = "choose another with log_dir in the configuration"
	dir, err := safepath.MakeDir(path, 0o750)
	if err != nil {
		return fmt.Errorf("make log directory %s: %w; %s", path, cause(err), remedy)
	}
	dir.Close()
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write log directory %s: %w; %s", path, err, remedy)
	}
	return nil
}
