package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/safepath"
	"superd/internal/syscalls"
	"superd/procs/host"
)

// makeDirectories makes the program's directories and adds the variables with their paths to the
// run's own.
func makeDirectories(a *attempt, spec *host.SpawnSpec, id *runAs) error {
	for kind := range config.DirectoryKinds {
		set := &spec.Program.Directories[kind]
		paths, err := spec.Program.DirectoryPaths(kind, spec.DirectoryRoots, spec.Own)
		if err != nil {
			return &host.SpawnError{Stage: "make directories", Err: err}
		}
		for _, path := range paths {
			stage := "make " + kind.Key()
			a.enter(stage, path)
			mode := uint32(0o755)
			if set.Mode != nil {
				mode = *set.Mode
			}
			fresh := kind == config.RuntimeDirectory && spec.BeginsRun && !spec.Program.RuntimeDirectoryPreserve
			if err := a.unlessCanceled(func() error { return makeDirectory(path, mode, fresh, id) }); err != nil {
				return &host.SpawnError{Stage: stage, Path: path, Err: err, Fault: host.FaultOf(err)}
			}
		}
		if len(paths) > 0 {
			spec.Own.Set(kind.Variable(), strings.Join(paths, ":"))
		}
	}
	return nil
}

// makeDirectory makes a directory of that mode for the user, or adapts the one that there is, also
// what is in it if it was another user's. A fresh one is empty.
func makeDirectory(path string, mode uint32, fresh bool, id *runAs) error {
	parent, name, err := openParent(path, 0o755)
	if err != nil {
		return err
	}
	defer parent.Close()
	// Without rights for others until it has its owner
	if err := unix.Mkdirat(parent.FD(), name, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	fd, err := openDirAt(parent.FD(), name)
	if err != nil {
		return explainLink(err)
	}
	defer unix.Close(fd)
	if fresh {
		if err := removeContents(fd, nil); err != nil {
			return fmt.Errorf("remove what an earlier run has left: %w", err)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uid, gid := id.owner(); st.Uid != uint32(uid) {
		if err := chownTree(fd, uid, gid); err != nil {
			return err
		}
	} else if st.Gid != uint32(gid) {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return fmt.Errorf("change owner: %w", err)
		}
	}
	return unix.Fchmod(fd, mode) // also what chown has cleared
}

// openParent opens the directory that holds path, and returns the last name. It makes missing
// directories of that mode; 0: none.
func openParent(path string, mode os.FileMode) (parent *safepath.Dir, name string, err error) {
	at := strings.LastIndexByte(path, '/')
	if mode == 0 {
		parent, err = safepath.OpenDir(path[:at+1])
	} else {
		parent, err = safepath.MakeDir(path[:at+1], mode)
	}
	return parent, path[at+1:], err
}

// openDirAt opens a directory to read it, and follows no link.
func openDirAt(at int, name string) (fd int, err error) {
	err = syscalls.Retry(func() (err error) {
		fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// explainLink says what the error of an open that follows no link means.
func explainLink(err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return errors.New("it exists and is no directory, or a link, which superd does not follow: remove it")
	}
	return err
}

// maxDepth bounds the descriptors that a deep tree takes.
const maxDepth = 32

// removeContents removes what is in the directory, and follows no link and no mount. It stops
// without an error when canceled, which may be nil, is set.
func removeContents(dir int, canceled *atomic.Bool) error {
	r := &remover{top: dir, canceled: canceled}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	r.dev = st.Dev
	for {
		removed, err := r.empty(dir, 1)
		switch {
		case canceled != nil && canceled.Load(), err == nil && removed == 0:
			return nil
		case err != nil && removed == 0:
			return err
		}
	}
}

// A remover removes a tree. Directories deeper than maxDepth are moved up to its top first.
type remover struct {
	top      int
	dev      uint64
	moved    int
	canceled *atomic.Bool
}

// empty removes what is in a directory at that depth. It returns how many entries it has removed or
// moved, and the last error.
func (r *remover) empty(dir, depth int) (removed int, last error) {
	names, err := entryNames(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if r.canceled != nil && r.canceled.Load() {
			return removed, nil
		}
		if err := r.remove(dir, name, depth, &removed); err != nil && !errors.Is(err, unix.ENOENT) {
			last = fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return removed, last
}

func (r *remover) remove(dir int, name string, depth int, removed *int) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		if err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); errors.Is(err, unix.ENOTEMPTY) {
			err = r.removeDirectory(dir, name, depth, removed)
		}
	}
	if err == nil {
		*removed++
	}
	return err
}

func (r *remover) removeDirectory(dir int, name string, depth int, removed *int) error {
	if depth == maxDepth {
		r.moved++
		return unix.Renameat(dir, name, r.top, ".superd-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(r.moved))
	}
	fd, err := openDirAt(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != r.dev {
		return errors.New("another file system is mounted there: unmount it")
	}
	inside, err := r.empty(fd, depth+1)
	*removed += inside
	if err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// entryNames returns the names in a directory.
func entryNames(dir int) ([]string, error) {
	fd, err := openDirAt(dir, ".") // has an offset of its own
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	const most = 10_000 // at a time
	names, err := f.Readdirnames(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

// chownTree gives a directory and what is in it to another user. Files with several names keep
// their owner: a name may be that of another user's file.
func chownTree(dir, uid, gid int) error {
	names, err := allNames(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := chownEntry(dir, name, uid, gid); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("change owner of %s: %w", name, err)
		}
	}
	// Last: when it is interrupted, the next start begins anew
	if err := unix.Fchown(dir, uid, gid); err != nil {
		return fmt.Errorf("change owner: %w", err)
	}
	return nil
}

func chownEntry(dir int, name string, uid, gid int) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		inner, err := openDirAt(fd, ".")
		if err != nil {
			return err
		}
		defer unix.Close(inner)
		return chownTree(inner, uid, gid)
	case st.Nlink > 1:
		return nil
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH)
}

func allNames(dir int) ([]string, error) {
	fd, err := openDirAt(dir, ".")
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	return f.Readdirnames(-1)
}

// RemoveDirectories implements [host.Host].
func (k *Host) RemoveDirectories(paths []string, done func(error)) (cancel func()) {
	canceled := new(atomic.Bool)
	go func() {
		var all []error
		for _, path := range paths {
			if err := removeDirectory(path, canceled); err != nil && !errors.Is(err, unix.ENOENT) {
				all = append(all, fmt.Errorf("%s: %w", path, err))
			}
		}
		k.loop.Post(func() {
			if !canceled.Load() {
				done(errors.Join(all...))
			}
		})
	}()
	return func() { canceled.Store(true) }
}

func removeDirectory(path string, canceled *atomic.Bool) error {
	parent, name, err := openParent(path, 0)
	if err != nil {
		return err
	}
	defer parent.Close()
	fd, err := openDirAt(parent.FD(), name)
	if err != nil {
		return explainLink(err)
	}
	defer unix.Close(fd)
	if err := removeContents(fd, canceled); err != nil || canceled.Load() {
		return err
	}
	return unix.Unlinkat(parent.FD(), name, unix.AT_REMOVEDIR)
}
