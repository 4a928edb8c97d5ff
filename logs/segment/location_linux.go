package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"superd/internal/passwd"
	"superd/internal/safepath"
	"superd/internal/syscalls"
)

// A location is where a log file and its rotated files are, and who may own them. Files there are
// named by their suffix to the name of the log file: "" is the log file itself.
//
// If other users may write to the directory, the rules of package safepath apply. No descriptor
// stays open: a thousand logs would need a thousand more.
type location struct {
	path    string
	options *Options // nil: only superd may own them
}

// Locate opens the directory. name is that of the log file there. If the path is a link of the
// administrator's, both are those of its target.
func (l location) Locate() (dir *safepath.Dir, name string, err error) {
	return safepath.Locate(l.path)
}

// owners returns the users other than superd's own that may own log files there.
func (l location) owners() (uids []uint32) {
	if l.options == nil {
		return nil
	}
	for _, name := range []string{l.options.Owner, l.options.User} {
		if name == "" {
			continue
		}
		user, err := passwd.System().User(name)
		if err != nil { // it may be a number without an account
			n, nerr := strconv.ParseUint(name, 10, 32)
			if nerr != nil {
				continue
			}
			user.UID = uint32(n)
		}
		uids = append(uids, user.UID)
	}
	return uids
}

// Open opens a file of the directory as dir.Open does. It looks up accounts only if necessary.
func (l location) Open(dir *safepath.Dir, name string, flags int, owners ...uint32) (safepath.File, error) {
	const mode = 0o640
	f, err := dir.Open(name, flags, mode, owners...)
	if _, refused := errors.AsType[*safepath.RefusedError](err); refused {
		if owners := append(l.owners(), owners...); len(owners) > 0 {
			f, err = dir.Open(name, flags, mode, owners...)
		}
	}
	return f, err
}

// A logFile is a log file just opened for writing. It is non-blocking.
type logFile struct {
	fd      int
	info    Info
	created bool   // by this call
	exposed string // who else may have put it there: see [safepath.File]
	guarded bool   // no other user may change its directory
}

// openLog opens the log file for writing, and makes it and its directory if necessary. flags is
// appending or 0. owners are further users that may own the file.
func (l location) openLog(flags int, owners ...uint32) (logFile, error) {
	const tries = 4 // as others may replace files meanwhile
	var err error
	for range tries {
		var f logFile
		if f, err = l.openLogOnce(flags, owners); err == nil {
			return f, nil
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dir, merr := safepath.MakeDir(filepath.Dir(l.path), 0o750)
			if merr != nil {
				return logFile{}, merr
			}
			dir.Close()
		case !errors.Is(err, unix.ELOOP): // ELOOP: a link was put there just now
			return logFile{}, err
		}
	}
	return logFile{}, err
}

func (l location) openLogOnce(flags int, owners []uint32) (logFile, error) {
	dir, name, err := l.Locate()
	if err != nil {
		return logFile{}, err
	}
	defer dir.Close()
	f, err := l.Open(dir, name, unix.O_WRONLY|unix.O_CREAT|flags, owners...)
	if errors.Is(err, unix.ENXIO) {
		if info, serr := dir.Stat(name); serr == nil && info.Mode&fs.ModeNamedPipe != 0 {
			return logFile{}, fmt.Errorf("open %s: it is a FIFO without a reader", l.path)
		}
	}
	if err != nil {
		return logFile{}, err
	}
	switch mode := f.Info.Mode; {
	case mode.IsRegular() || mode&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
	default:
		syscalls.Close(f.FD)
		return logFile{}, fmt.Errorf("open %s: it is not a regular file, character device or FIFO", l.path)
	}
	return logFile{fd: f.FD, info: newFileInfo(&f.Info), created: f.Created, exposed: f.Exposed, guarded: dir.Exposed() == ""}, nil
}

// appending is for files with other writers. splice(2) refuses it.
const appending = unix.O_APPEND

// openRead opens a file for reading. A file that is not regular counts as missing, as it can't be
// read back.
func (l location) openRead(suffix string) (*os.File, error) {
	dir, name, err := l.Locate()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	file, _, err := l.openReadIn(dir, name+suffix)
	return file, err
}

// openReadIn is openRead in the open directory.
func (l location) openReadIn(dir *safepath.Dir, name string) (*os.File, Info, error) {
	f, err := l.Open(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, Info{}, err
	}
	path := filepath.Join(dir.Path(), name)
	if !f.Info.Mode.IsRegular() {
		syscalls.Close(f.FD)
		return nil, Info{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return os.NewFile(uintptr(f.FD), path), newFileInfo(&f.Info), nil
}

// createIn makes a file in the open directory. It replaces an existing one.
func (l location) createIn(dir *safepath.Dir, name string) (*os.File, error) {
	if err := removeIn(dir, name); err != nil {
		return nil, err
	}
	f, err := dir.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(f.FD), filepath.Join(dir.Path(), name)), nil
}

func (l location) contentSizeIn(dir *safepath.Dir, name string, c Compression) (int64, error) {
	file, _, err := l.openReadIn(dir, name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return c.contentSize(file)
}

// stat returns the state of a file, whoever owns it.
func (l location) stat(suffix string) (Info, error) {
	dir, name, err := l.Locate()
	if err != nil {
		return Info{}, err
	}
	defer dir.Close()
	info, err := dir.Stat(name + suffix)
	if err != nil {
		return Info{}, err
	}
	return newFileInfo(&info), nil
}

// statGuarded is stat by one call, which follows any link. It is only for a directory that no other
// user may change.
func (l location) statGuarded(suffix string) (Info, error) {
	var st unix.Stat_t
	path := l.path + suffix
	if err := syscalls.Retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	info := safepath.NewInfo(&st)
	return newFileInfo(&info), nil
}

// rename appends suffix to the name of the log file. If that name exists, the error is fs.ErrExist.
func (l location) rename(suffix string) error {
	dir, name, err := l.Locate()
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RenameNew(name, name+suffix)
}

// remove removes a file, if it exists.
func (l location) remove(suffix string) error {
	dir, name, err := l.Locate()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return removeIn(dir, name+suffix)
}

func removeIn(dir *safepath.Dir, name string) error {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openUnnamed makes a file without a name, which ends when it is closed, in the directory of the
// log.
func (l location) openUnnamed() (*os.File, error) {
	dir, _, err := l.Locate()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openUnnamedIn(dir)
}

// openTemporary makes a file without a name in the directory of temporary files.
func openTemporary() (*os.File, error) {
	dir, err := safepath.OpenDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openUnnamedIn(dir)
}

func openUnnamedIn(dir *safepath.Dir) (*os.File, error) {
	fd, err := dir.OpenNameless()
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), dir.Path()), nil
}
