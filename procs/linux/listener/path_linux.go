package listener

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/listen"
	"superd/internal/passwd"
	"superd/internal/safepath"
)

// defaultMode is the mode of a path without the key mode: who may be asked, may connect.
const defaultMode = 0o666

// mode returns the mode of the socket's paths.
func mode(s *config.Socket) uint32 {
	if s.Mode == nil {
		return defaultMode
	}
	return *s.Mode
}

// maxPath is the length of the longest path of a Unix socket. Source: man 7 unix, sun_path.
const maxPath = 107

// kindOf returns the type of a Unix socket.
func kindOf(a listen.Address) int {
	if a.Network == listen.Unixgram {
		return unix.SOCK_DGRAM
	}
	return unix.SOCK_STREAM
}

// openUnix opens a Unix socket. A path of one that nobody has open any more is replaced.
func openUnix(s *config.Socket, a listen.Address) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, kindOf(a)|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	// The path gets the mode of the socket, less the umask: it is never open to more users.
	if err := unix.Fchmod(fd, mode(s)); err != nil {
		return closeIf(fmt.Errorf("set mode: %w", err), fd)
	}
	at := &unix.SockaddrUnix{Name: a.Address}
	err = unix.Bind(fd, at)
	if errors.Is(err, unix.EADDRINUSE) && a.Path() != "" {
		if err := removeStale(a); err != nil {
			return closeIf(err, fd)
		}
		err = unix.Bind(fd, at)
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
	case errors.Is(err, unix.ENOENT):
		err = fmt.Errorf("there is no directory %s: make it, or choose another path", filepath.Dir(a.Path()))
	case err != nil:
		err = fmt.Errorf("bind: %w", err)
	default:
		if err = Change(fd, s, a); err == nil {
			linkSpare(a)
		} else if path := a.Path(); path != "" {
			_ = unix.Unlink(path) // nobody could connect to it
		}
	}
	return closeIf(err, fd)
}

// removeStale removes the path of a socket that nobody has open.
func removeStale(a listen.Address) error {
	path := a.Path()
	dir, err := openDirectory(path)
	if err != nil {
		return err
	}
	defer dir.close()
	var stat unix.Stat_t
	if err := unix.Fstatat(dir.fd, dir.name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "look at", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errors.New("there is a file that is no socket: remove it, or choose another path")
	}
	probe, err := unix.Socket(unix.AF_UNIX, kindOf(a)|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make socket: %w", err)
	}
	defer unix.Close(probe)
	// A live one accepts, has a full backlog (EAGAIN), is of another type (EPROTOTYPE), or is bound
	// and does not listen yet. Connections that a dead one has accepted have its path, too.
	to := dir.path(dir.name)
	if len(to) > maxPath {
		to = path
	}
	if err := unix.Connect(probe, &unix.SockaddrUnix{Name: to}); !errors.Is(err, unix.ECONNREFUSED) ||
		slices.ContainsFunc(rivals(a), func(s found) bool { return s.state == closed }) {
		return unix.EADDRINUSE
	}
	if err := unix.Unlinkat(dir.fd, dir.name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "remove stale socket", Path: path, Err: err}
	}
	return nil
}

// openFIFO opens a FIFO for reading and writing, so that a reader never sees its end. An existing
// one is used.
func openFIFO(s *config.Socket, path string) (int, error) {
	made := unix.Mkfifo(path, mode(s))
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return -1, &os.PathError{Op: "make FIFO", Path: path, Err: made}
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return closeIf(os.NewSyscallError("fstat", err), fd)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return closeIf(errors.New("there is a file that is no FIFO: remove it, or choose another path"), fd)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return closeIf(os.NewSyscallError("fcntl", err), fd)
	}
	if made == nil { // the umask may have taken bits
		if err := unix.Fchmod(fd, mode(s)); err != nil {
			return closeIf(&os.PathError{Op: "change mode of", Path: path, Err: err}, fd)
		}
	}
	a := listen.Address{Network: listen.FIFO, Address: path}
	if err := Change(fd, s, a); err != nil {
		return closeIf(err, fd)
	}
	linkSpare(a)
	return fd, nil
}

// changePath gives the path of a socket its owner and mode. It never changes another file: a
// directory in which others may write may have one there by now.
func changePath(fd int, s *config.Socket, a listen.Address) error {
	uid, gid, err := owner(s)
	if err != nil {
		return err
	}
	at, err := openOwn(fd, a)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchownat(at, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "change owner of", Path: a.Path(), Err: err}
		}
	}
	if a.Network == listen.FIFO && s.Mode == nil {
		return nil // it may be another one's
	}
	// Not fchmod, which a descriptor without rights refuses. After the owner, whose change may
	// clear bits of it
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(at), mode(s)); err != nil {
		return &os.PathError{Op: "change mode of", Path: a.Path(), Err: err}
	}
	return nil
}

// owner returns the owner of the socket's paths, -1 for none.
func owner(s *config.Socket) (uid, gid int, err error) {
	uid, gid = -1, -1
	if s.User != "" {
		user, err := passwd.System().User(s.User)
		if err != nil {
			return -1, -1, err
		}
		uid = int(user.UID)
	}
	if s.Group != "" {
		group, err := passwd.System().Group(s.Group)
		if err != nil {
			return -1, -1, err
		}
		gid = int(group)
	}
	return uid, gid, nil
}

// errReplaced says that a path is no longer that of the descriptor.
var errReplaced = errors.New("another file has taken its place: restart superd, or choose another path")

// openOwn returns a descriptor of the path of an open socket or FIFO. Where other users may write,
// it must still be its path.
func openOwn(fd int, a listen.Address) (at int, err error) {
	at, err = openPath(a.Path())
	if err != nil {
		return -1, &os.PathError{Op: "look at", Path: a.Path(), Err: err}
	}
	if !isExposed(a) {
		return at, nil
	}
	if err := proveOwn(fd, at, a); err != nil {
		return closeIf(err, at)
	}
	return at, nil
}

// isExposed reports whether other users may put files at the path of an address; true if that is
// not known.
func isExposed(a listen.Address) bool {
	dir, err := safepath.OpenDir(filepath.Dir(a.Path()))
	if err != nil {
		return true
	}
	defer dir.Close()
	return dir.Exposed() != ""
}

// proveOwn returns nil if at is the path to which fd was bound, [errReplaced] if it is not, and
// another error if the kernel does not tell. Nobody needs the proof of a path that is not exposed.
func proveOwn(fd, at int, a listen.Address) error {
	var own, there unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &own), unix.Fstat(at, &there)); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if a.Network == listen.FIFO {
		if own.Ino != there.Ino || own.Dev != there.Dev {
			return errReplaced
		}
		return nil
	}
	if there.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return errReplaced
	}
	// sock_diag has the lower half of an inode
	socket, err := unixSocket(uint32(own.Ino))
	switch {
	case err != nil && !errors.Is(err, unix.ENOENT) && !isExposed(a):
		return nil
	case err != nil && !errors.Is(err, unix.ENOENT):
		return fmt.Errorf("can't tell whose path it is: %w: allow sockets of AF_NETLINK (sock_diag), or "+
			"choose a directory that only superd may write", err)
	case err != nil || socket.pathInode != uint32(there.Ino):
		return errReplaced
	}
	return nil
}

// Remove removes the path of an open socket, unless another file has taken its place. Of a FIFO it
// removes the second name only.
func Remove(fd int, a listen.Address) error {
	dir, err := openDirectory(a.Path())
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.close()
	// A socket whose directory refuses it has no spare name
	_ = dir.removeOwn(fd, dir.spare(), a)
	if a.Network == listen.FIFO {
		return nil
	}
	if err := dir.removeOwn(fd, dir.name, a); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil // a program has removed it
}

// A directory is the open directory of a path, and the name in it. What is checked and removed by
// it is in the same directory, wherever others let the path lead meanwhile.
type directory struct {
	fd   int
	name string
}

func openDirectory(path string) (directory, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return directory{}, &os.PathError{Op: "open directory of", Path: path, Err: err}
	}
	return directory{fd, filepath.Base(path)}, nil
}

func (d directory) close() { unix.Close(d.fd) }

// path returns a path of a name in the directory, for calls that take no descriptor.
func (d directory) path(name string) string {
	return "/proc/self/fd/" + strconv.Itoa(d.fd) + "/" + name
}

// open returns a descriptor of a name in the directory, without rights.
func (d directory) open(name string) (fd int, err error) {
	return unix.Openat(d.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// spare returns the second name of a path that was bound: if it is removed, it can only be made
// again by a link to the same file, and not by another bind(2) or mkfifo(3).
func (d directory) spare() string { return "." + d.name + ".superd" }

func (d directory) removeOwn(fd int, name string, a listen.Address) error {
	at, err := d.open(name)
	if err != nil {
		return err
	}
	err = proveOwn(fd, at, a)
	unix.Close(at)
	if err != nil {
		return err
	}
	return unix.Unlinkat(d.fd, name, 0)
}

func openPath(path string) (fd int, err error) {
	return unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// linkSpare gives the path of a socket or FIFO its second name, if the directory allows it.
func linkSpare(a listen.Address) {
	if a.Path() == "" {
		return
	}
	dir, err := openDirectory(a.Path())
	if err != nil {
		return
	}
	defer dir.close()
	var stat unix.Stat_t
	if unix.Fstatat(dir.fd, dir.spare(), &stat, unix.AT_SYMLINK_NOFOLLOW) == nil {
		if kind := stat.Mode & unix.S_IFMT; kind == unix.S_IFSOCK || kind == unix.S_IFIFO {
			_ = unix.Unlinkat(dir.fd, dir.spare(), 0) // of a socket of before
		}
	}
	_ = unix.Linkat(dir.fd, dir.name, dir.fd, dir.spare(), 0)
}

// Restore makes the path of an open Unix socket or FIFO again if it is gone. It leaves another file
// in its place alone.
func Restore(fd int, a listen.Address) (restored bool, err error) {
	path := a.Path()
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); !errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	dir, err := openDirectory(path)
	if err != nil {
		return false, err
	}
	defer dir.close()
	spare := filepath.Join(filepath.Dir(path), dir.spare())
	at, err := dir.open(dir.spare())
	if err != nil {
		return false, &os.PathError{Op: "look at", Path: spare, Err: err}
	}
	defer unix.Close(at)
	if err := proveOwn(fd, at, a); err != nil {
		return false, &os.PathError{Op: "use", Path: spare, Err: err}
	}
	err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(at), dir.fd, dir.name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return false, &os.LinkError{Op: "link", Old: spare, New: path, Err: err}
	}
	return true, nil
}
