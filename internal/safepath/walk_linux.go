package safepath

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// Open opens a file by the rules of [Locate] and [Dir.Open].
func Open(path string, flags int, mode fs.FileMode, owners ...uint32) (File, error) {
	for try := 1; ; try++ {
		dir, name, err := Locate(path)
		if err != nil {
			return File{}, err
		}
		f, err := dir.Open(name, flags, mode, owners...)
		dir.Close()
		if errors.Is(err, unix.ELOOP) && try < maxLinks { // it was just replaced by a link
			continue
		}
		return f, err
	}
}

// StatFD returns the properties of an open file.
func StatFD(fd int) (Info, error) {
	var st unix.Stat_t
	if err := syscalls.Retry(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return Info{}, os.NewSyscallError("fstat", err)
	}
	return NewInfo(&st), nil
}

// maxLinks is how many links of a path are followed, as in the kernel.
const maxLinks = 40

// A walk is a path that is being opened.
type walk struct {
	op, path string
	trust    trust
	mode     uint32   // mode of directories to create; 0: create none
	stack    []*Dir   // from the root directory to the current one
	rest     []string // names not yet walked
	links    int      // number of links followed
}

func newWalk(op, path string) (*walk, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if filepath.IsAbs(path) {
		absolute = path // keeps .., which mean something else after a link
	}
	w := &walk{op: op, path: path, rest: names(absolute)}
	w.trust = trust{self: uint32(os.Geteuid()), outside: isOutside}
	return w, w.enter("/")
}

func (w *walk) top() *Dir { return w.stack[len(w.stack)-1] }

// pop removes the current directory from the walk and returns it to the caller, which closes it.
func (w *walk) pop() *Dir {
	dir := w.top()
	w.stack = w.stack[:len(w.stack)-1]
	return dir
}

func (w *walk) close() {
	for _, dir := range w.stack {
		dir.Close()
	}
	w.stack = nil
}

func (w *walk) fail(err error) error { return &fs.PathError{Op: w.op, Path: w.path, Err: err} }

// descend walks the next n names, each a directory or a link to one. Names of followed links are
// walked in addition.
func (w *walk) descend(n int) error {
	for remaining := len(w.rest) - n; len(w.rest) > remaining; {
		name := w.rest[0]
		w.rest = w.rest[1:]
		switch name {
		case ".":
			continue
		case "..":
			if len(w.stack) > 1 {
				w.pop().Close()
			}
			continue
		}
		err := w.enter(name)
		if errors.Is(err, fs.ErrNotExist) && w.mode != 0 {
			merr := unix.Mkdirat(w.top().fd, name, w.mode)
			if merr != nil && merr != unix.EEXIST {
				return w.fail(merr)
			}
			err = w.enter(name)
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			if info, serr := w.top().Stat(name); serr == nil && info.Mode.Type() == fs.ModeSymlink {
				_, err = w.follow(name, false)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter walks into a subdirectory of the current directory, if name is one; the first is "/".
func (w *walk) enter(name string) (err error) {
	dir := &Dir{path: "/", trust: w.trust}
	at, above := unix.AT_FDCWD, (*Dir)(nil)
	if len(w.stack) > 0 {
		above = w.top()
		at, dir.path = above.fd, above.join(name)
	}
	err = syscalls.Retry(func() (err error) { // O_DIRECTORY triggers automounts
		dir.fd, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return w.fail(err)
	}
	if dir.info, err = StatFD(dir.fd); err != nil {
		dir.Close()
		return w.fail(err)
	}
	if above != nil && above.exposed != "" && !w.trust.trustsEntry(&dir.info, above.sticky) {
		dir.exposed = above.exposed
	} else if writers := w.trust.exposure(&dir.info, dir.acl); writers != "" {
		dir.exposed = writers + " may write " + dir.path
		dir.sticky = dir.info.Mode&fs.ModeSticky != 0 && w.trust.trusts(dir.info.UID)
	}
	if dir.exposed != "" && dir.isProcRoot() {
		dir.exposed, dir.sticky = "", false
	}
	w.stack = append(w.stack, dir)
	return nil
}

// acl returns the directory's access control list in the kernel's format, nil if there is none.
func (d *Dir) acl() ([]byte, error) {
	list := make([]byte, 64<<10) // maximum size of an attribute
	path := fmt.Sprintf("/proc/self/fd/%d", d.fd)
	n, err := unix.Getxattr(path, "system.posix_acl_access", list)
	if err == unix.ENODATA || err == unix.EOPNOTSUPP {
		return nil, nil
	}
	return list[:max(n, 0)], err
}

// follow continues the walk at the target of a link. magic is true if it is the last name and a
// link of procfs, such as /proc/self/fd/1. The target of such a link may have no name and must be
// opened through the link.
func (w *walk) follow(name string, last bool) (magic bool, err error) {
	if w.links++; w.links > maxLinks {
		return false, w.fail(unix.ELOOP)
	}
	dir := w.top()
	fd, err := unix.Openat(dir.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, w.fail(err)
	}
	defer unix.Close(fd)
	info, err := StatFD(fd)
	if err != nil {
		return false, w.fail(err)
	}
	if dir.exposed != "" && !w.trust.trustsEntry(&info, dir.sticky) {
		what := "it is " + kind(info.Mode)
		return false, &RefusedError{Op: w.op, Path: dir.join(name), What: what, Exposed: dir.exposed}
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	if err != nil {
		return false, w.fail(err)
	}
	target := string(buf[:n])
	if last && isNumber(name) && dir.isProc() {
		dir.magic = true
		return true, nil
	}
	if filepath.IsAbs(target) {
		for len(w.stack) > 1 {
			w.pop().Close()
		}
	}
	w.rest = append(names(target), w.rest...)
	return false, nil
}

// isProcRoot reports whether the directory is the root of procfs, in which no user creates entries.
// Its owner is the machine's root, which is the overflow user in a container that maps 65,536
// users.
func (d *Dir) isProcRoot() bool {
	const root = 1 // its inode
	return d.info.Inode == root && d.isProc()
}

// isProc reports whether the directory is in procfs.
func (d *Dir) isProc() bool {
	var system unix.Statfs_t
	err := syscalls.Retry(func() error { return unix.Fstatfs(d.fd, &system) })
	return err == nil && system.Type == unix.PROC_SUPER_MAGIC
}

// isNumber reports whether a name may be an entry of /proc/self/fd.
func isNumber(name string) bool {
	_, err := strconv.ParseUint(name, 10, 32)
	return err == nil
}

// overflowUID is the owner shown for users that a user namespace does not map.
const overflowUID = 65534

// isOutside reports whether an owner has no number in the user namespace. No user inside is that
// owner.
func isOutside(uid uint32) bool {
	if uid != overflowUID {
		return false
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	return !maps(string(text), uid)
}

// maps reports whether a kernel table in the format of user_namespaces(7) maps an id.
func maps(table string, id uint32) bool {
	return slices.ContainsFunc(strings.Split(table, "\n"), func(line string) bool {
		var inside, outside, count uint64
		n, _ := fmt.Sscan(line, &inside, &outside, &count)
		return n == 3 && inside <= uint64(id) && uint64(id)-inside < count
	})
}

func temporaryName() string { return ".superd-" + rand.Text() }

// NewInfo converts the result of a stat call.
func NewInfo(st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	if st.Mode&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if st.Mode&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if st.Mode&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	const nullMajor, nullMinor = 1, 3 // Source: linux:Documentation/admin-guide/devices.txt
	null := st.Mode&unix.S_IFMT == unix.S_IFCHR && uint64(st.Rdev) == unix.Mkdev(nullMajor, nullMinor)
	return Info{
		Null:   null,
		Device: uint64(st.Dev), Inode: st.Ino, UID: st.Uid, GID: st.Gid, Mode: mode,
		Links: uint64(st.Nlink), Size: st.Size, Allocated: st.Blocks * 512, Changed: time.Unix(st.Mtim.Unix()),
	}
}
