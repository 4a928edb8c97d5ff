package segment

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"superd/internal/passwd"
	"superd/internal/syscalls"
	"superd/logs/frame"
)

// Options are how a log file is written, and who may own it.
type Options struct {
	// User of the program, by name or number; "" is superd's. Files in a directory where this user
	// may write may belong to the user.
	User string

	// The file's owners, by name or number, and its mode; "" and 0: superd's own, and 0640.
	Owner, Group string
	Mode         uint32

	Format frame.Format

	// The file is rotated before it exceeds MaxSize bytes (0: never), and when output comes and it
	// is MaxAge old (0: never).
	MaxSize int64
	MaxAge  time.Duration

	// The oldest rotated files are removed: those beyond the number Keep, and those by which all of
	// them and a full current one would exceed MaxTotal bytes (0: no limit).
	Keep        int
	MaxTotal    int64
	Compression Compression // of rotated files

	MinFree int64 // bytes that remain free on the file system, for all users; with less it is full
}

// setOwnership sets the owners and mode of an open log file by the options. It is an error to
// change those of a file that another user may have put there: it may be one of root's files.
func (o *Options) setOwnership(path string, f logFile) error {
	info := f.info
	uid, gid := info.uid, info.gid
	if o.Owner != "" {
		user, err := passwd.System().User(o.Owner)
		if err != nil {
			return fmt.Errorf("own %s: %w", path, err)
		}
		uid = user.UID
	}
	if o.Group != "" {
		var err error
		if gid, err = passwd.System().Group(o.Group); err != nil {
			return fmt.Errorf("own %s: %w", path, err)
		}
	}
	mode := cmp.Or(o.Mode, info.mode)
	if f.exposed != "" && (uid != info.uid || gid != info.gid || mode != info.mode) {
		return fmt.Errorf("own %s: it existed before, and %s: remove it, and superd creates it", path, f.exposed)
	}
	if uid != info.uid || gid != info.gid {
		if err := changeOwner(f.fd, uid, gid); err != nil {
			return &os.PathError{Op: "own", Path: path, Err: err}
		}
	}
	if mode != info.mode {
		if err := changeMode(f.fd, mode); err != nil {
			return &os.PathError{Op: "change mode of", Path: path, Err: err}
		}
	}
	return nil
}

// OpenDirect opens the log file at path for a program that writes to it itself, as the user uid. It
// returns a descriptor that appends.
func OpenDirect(path string, o *Options, uid uint32) (fd int, err error) {
	f, err := (location{path, o}).openLog(appending, uid)
	if err != nil {
		return -1, err
	}
	fd = f.fd
	err = setBlocking(fd)
	if err == nil && f.info.regular {
		switch info := &f.info; {
		case f.created && o.Owner == "" && uid != info.uid && changeOwner(fd, uid, info.gid) == nil:
			// if changeOwner fails, the program can write there all the same
			info.uid = uid
		case f.exposed != "" && uid != 0 && uid != info.uid && (info.uid == 0 || o.Owner == ""):
			err = fmt.Errorf("open %s for user %d: it belongs to user %d, and %s: remove it, or change its owner to user %d",
				path, uid, info.uid, f.exposed, uid)
		}
		if err == nil {
			err = o.setOwnership(path, f)
		}
	}
	if err != nil {
		syscalls.Close(fd)
		return -1, err
	}
	return fd, nil
}
