package linux

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// maxDepth bounds the descriptors that a walk of a deep tree takes.
const maxDepth = 32

// A fileTree is a directory tree that another user may change at any time. Its methods follow no
// link and enter no mount. They stop without an error when stop returns true, which is asked before
// each entry.
type fileTree struct {
	top  int // descriptor of the directory
	dev  uint64
	stop func() bool
}

func newFileTree(top int, stop func() bool) (*fileTree, error) {
	var st unix.Stat_t
	if err := unix.Fstat(top, &st); err != nil {
		return nil, err
	}
	return &fileTree{top: top, dev: st.Dev, stop: stop}, nil
}

// openAt opens an entry of a directory, and not what is mounted there: that is [unix.EXDEV].
func (t *fileTree) openAt(dir int, name string, flags uint64) (fd int, err error) {
	how := &unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS}
	err = syscalls.Retry(func() (err error) {
		fd, err = unix.Openat2(dir, name, how)
		return err
	})
	if err != unix.ENOSYS && err != unix.EPERM {
		return fd, err
	}
	// A kernel before 5.6, or a filter that refuses the call: of mounts only those of other file
	// systems are seen.
	if fd, err = unix.Openat(dir, name, int(how.Flags), 0); err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != t.dev {
		unix.Close(fd)
		return -1, cmpError(err, unix.EXDEV)
	}
	return fd, nil
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func (t *fileTree) openDir(dir int, name string) (fd int, err error) {
	return t.openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// eachName calls visit with the names in a directory until it fails.
func (t *fileTree) eachName(dir int, visit func(name string) error) error {
	fd, err := t.openDir(dir, ".") // has an offset of its own
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	const batch = 1000
	for {
		names, err := f.Readdirnames(batch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if t.stop() {
				return nil
			}
			if err := visit(name); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// A treeError is an error at one entry. Its user chooses the name.
type treeError struct {
	does, name string
	err        error
}

func (e *treeError) Error() string { return fmt.Sprintf("%s %q: %v", e.does, e.name, e.err) }
func (e *treeError) Unwrap() error { return e.err }

// atEntry says at which entry err has happened, unless it says so itself.
func atEntry(does, name string, err error) error {
	if _, ok := errors.AsType[*treeError](err); ok || err == nil {
		return err
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EBUSY):
		err = errors.New("something is mounted there: unmount it")
	case errors.Is(err, errDepth):
		does += " what is below"
	}
	return &treeError{does, name, err}
}

var errDepth = fmt.Errorf("there are more than %d directories in each other", maxDepth)

// chown gives the tree to another user. Another user may have linked a file of somebody else into
// it: so a file with several names keeps its owner.
func (t *fileTree) chown(uid, gid int) error {
	if err := t.chownIn(t.top, uid, gid, 1); err != nil || t.stop() {
		return err
	}
	return unix.Fchown(t.top, uid, gid) // last: if this is interrupted, the next start begins anew
}

func (t *fileTree) chownIn(dir, uid, gid, depth int) error {
	return t.eachName(dir, func(name string) error {
		return atEntry("change owner of", name, t.chownEntry(dir, name, uid, gid, depth))
	})
}

func (t *fileTree) chownEntry(dir int, name string, uid, gid, depth int) error {
	fd, err := t.openAt(dir, name, unix.O_PATH)
	if errors.Is(err, unix.ELOOP) { // openat2 refuses a link even so
		return unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		if st.Nlink > 1 {
			return nil
		}
		return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
	case depth == maxDepth:
		return errDepth
	}
	inner, err := t.openDir(fd, ".")
	if err != nil {
		return err
	}
	defer unix.Close(inner)
	if err := t.chownIn(inner, uid, gid, depth+1); err != nil || t.stop() {
		return err
	}
	return unix.Fchown(inner, uid, gid)
}

// remove removes what is in the tree. Directories deeper than maxDepth are moved to its top first.
func (t *fileTree) remove() error {
	for {
		removed := 0
		err := t.removeIn(t.top, 1, &removed)
		if err == nil && removed == 0 || t.stop() || err != nil && removed == 0 {
			return err
		}
	}
}

// removeIn removes what is in a directory, as far as it can. It counts what it has removed or
// moved, and returns the last error.
func (t *fileTree) removeIn(dir, depth int, removed *int) (last error) {
	err := t.eachName(dir, func(name string) error {
		err := atEntry("remove", name, t.removeEntry(dir, name, depth, removed))
		if err != nil && !errors.Is(err, unix.ENOENT) {
			last = err
		}
		return nil
	})
	return cmpError(err, last)
}

func (t *fileTree) removeEntry(dir int, name string, depth int, removed *int) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) {
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) {
			err = t.removeDir(dir, name, depth, removed)
		}
	}
	if err == nil {
		*removed++
	}
	return err
}

func (t *fileTree) removeDir(dir int, name string, depth int, removed *int) error {
	if depth == maxDepth {
		return unix.Renameat(dir, name, t.top, asideName())
	}
	fd, err := t.openDir(dir, name)
	if errors.Is(err, unix.EACCES) { // superd is not root, and it is the program's user
		if unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW) == nil {
			fd, err = t.openDir(dir, name)
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := t.removeIn(fd, depth+1, removed); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
