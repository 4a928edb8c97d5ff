package linux

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"superd/config/directory"
	"superd/internal/safepath"
	"superd/procs/host"
)

// makeDirectories returns the paths of the program's directories, and adds the variables with them
// to the run's own. For the first process of a run it also makes the directories, for the user.
func makeDirectories(a *attempt, spec *host.SpawnSpec, user *runAs) (all []string, err error) {
	for kind := range directory.Kinds {
		paths, err := spec.DirectoryRoots.Paths(kind, spec.Program.Directories[kind], spec.Own)
		if err != nil {
			return nil, &host.SpawnError{Stage: "make directories", Err: err}
		}
		if len(paths) == 0 {
			continue
		}
		for _, path := range paths {
			if !spec.BeginsRun {
				break
			}
			stage := "make " + kind.Key()
			a.enter(stage, path)
			m := &directoryMaker{mode: 0o755, user: user, stop: a.canceled}
			if mode := spec.Program.Directories[kind].Mode; mode != nil {
				m.mode = *mode
			}
			if err := m.make(spec.DirectoryRoots.Roots[kind], path); err != nil {
				return nil, &host.SpawnError{Stage: stage, Path: path, Err: err, Fault: host.FaultOf(err)}
			}
		}
		spec.Own.Set(kind.Variable(), strings.Join(paths, ":"))
		all = append(all, paths...)
	}
	return all, nil
}

// A directoryMaker makes directories for a user.
type directoryMaker struct {
	mode uint32
	user *runAs
	stop func() bool
}

// make creates the directory, or sets mode and owner of an existing one. If the owner changes, that
// of its contents changes, too. Without a user of its own the program manages owners itself: only a
// missing directory is made. Nor does what a link leads to outside root change: superd does not
// know what it is.
func (m *directoryMaker) make(root, full string) error {
	if err := makeParents(root, full); err != nil {
		return err
	}
	parent, name, err := safepath.Locate(full) // follows a link of the administrator
	if err != nil {
		return err
	}
	defer parent.Close()
	created := true
	// Without rights for others until it has its owner
	if err := unix.Mkdirat(parent.FD(), name, 0o700); err == unix.EEXIST {
		created = false
	} else if err != nil {
		return err
	}
	fd, err := unix.Openat(parent.FD(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) {
			return errors.New("it exists and is not a directory: move it away")
		}
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	uid, gid := m.user.owner()
	outside, err := leadsOutside(root, parent)
	switch {
	case err != nil:
		return err
	case !created && m.user.credential == nil:
		return nil
	case outside && st.Uid != uint32(uid):
		return fmt.Errorf("it is a link to %s, which does not belong to the program's user: change its owner", path.Join(parent.Path(), name))
	case outside:
		return nil
	case st.Uid == uint32(uid) && st.Gid == uint32(gid):
	case created || st.Uid == uint32(uid):
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return fmt.Errorf("change owner: %w", err)
		}
	default:
		if err := m.giveAway(parent, fd, uid, gid); err != nil {
			return err
		}
	}
	if st.Mode&0o7777 == m.mode && !created {
		return nil
	}
	return unix.Fchmod(fd, m.mode)
}

// leadsOutside reports whether a directory is not below root: a link has led there.
func leadsOutside(root string, dir *safepath.Dir) (bool, error) {
	top, err := safepath.OpenDir(root) // may be reached by a link itself
	if err != nil {
		return false, err
	}
	defer top.Close()
	at := top.Path()
	return dir.Path() != at && !strings.HasPrefix(dir.Path(), strings.TrimSuffix(at, "/")+"/"), nil
}

// giveAway changes the owner of an existing directory and its contents.
func (m *directoryMaker) giveAway(parent *safepath.Dir, fd, uid, gid int) error {
	if who := parent.Exposed(); who != "" {
		return fmt.Errorf("it belongs to another user, and %s, where anybody could have put it: change its owner, or remove it", who)
	}
	tree, err := newFileTree(fd, m.stop)
	if err != nil {
		return err
	}
	return tree.chown(uid, gid)
}

// makeParents makes the missing directories between root and the last name of the path. They can be
// entered by each user, regardless of superd's umask.
func makeParents(root, full string) error {
	at := root
	rest := strings.TrimPrefix(path.Dir(full), root)
	for name := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if name == "" {
			break
		}
		dir, err := safepath.MakeDir(at, 0o755)
		if err != nil {
			return err
		}
		err = unix.Mkdirat(dir.FD(), name, 0o755)
		if err == nil && dir.Exposed() == "" {
			err = unix.Fchmodat(dir.FD(), name, 0o755, 0)
		}
		dir.Close()
		if err != nil && err != unix.EEXIST {
			return &fs.PathError{Op: "make", Path: path.Join(at, name), Err: err}
		}
		at = path.Join(at, name)
	}
	return nil
}

// RemoveDirectories implements [host.Host]. Each directory gets another name first, so that what
// hangs later is not in the way of the next run.
func (k *Host) RemoveDirectories(paths []string, done func(error)) (cancel func()) {
	canceled := new(atomic.Bool)
	k.removing.Begin(&k.removals, func() {
		var all []error
		var aside []asideDir
		for _, path := range paths {
			if canceled.Load() {
				break
			}
			dir, err := moveAside(path, canceled)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = append(all, fmt.Errorf("%s: %w", path, err))
			} else if err == nil {
				aside = append(aside, dir)
			}
		}
		k.loop.Post(func() {
			if !canceled.Load() {
				done(errors.Join(all...))
			}
		})
		for _, dir := range aside {
			if _, swept := k.swept.LoadOrStore(dir.parent.Path(), true); !swept {
				dir.sweep()
			}
			k.removing.Begin(&k.removals, func() {
				if err := dir.remove(); err != nil {
					k.log.Warn("runtime directory not removed", "was", dir.path, "is", dir.parent.Path()+"/"+dir.name, "error", err)
				}
			})
		}
	})
	return func() { canceled.Store(true) }
}

// endRemovals lets superd end after the removals, if they do not hang: a successor must not have
// names removed later. It removes what is left.
func (k *Host) endRemovals() {
	ended := make(chan struct{})
	go func() {
		k.unlinking.Wait()
		k.closing.Wait()
		k.removing.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
}

// An asideDir is a directory that was moved aside to be removed.
type asideDir struct {
	path   string
	parent *safepath.Dir
	name   string
}

// asidePrefix begins the names of directories that are being removed.
const asidePrefix = ".superd-removes-"

// asideName returns a new name to move a directory to.
func asideName() string {
	var random [8]byte
	rand.Read(random[:]) // never fails
	return asidePrefix + hex.EncodeToString(random[:])
}

// moveAside renames a directory. It does not after canceled is set: then the name may be that of a
// directory of the next run.
func moveAside(path string, canceled *atomic.Bool) (asideDir, error) {
	at := strings.LastIndexByte(path, '/')
	parent, err := safepath.OpenDir(path[:at+1])
	if err != nil {
		return asideDir{}, err
	}
	d := asideDir{path, parent, asideName()}
	info, err := parent.Stat(path[at+1:])
	switch {
	case err == nil && !info.Mode.IsDir():
		err = errors.New("it is no longer a directory")
	case err == nil && canceled.Load():
		err = errCanceled
	case err == nil:
		if err = unix.Renameat(parent.FD(), path[at+1:], parent.FD(), d.name); errors.Is(err, unix.EBUSY) {
			err = errors.New("something is mounted there: unmount it")
		}
	}
	if err != nil {
		parent.Close()
	}
	return d, err
}

// sweep removes what a superd that was killed has left beside the directory.
func (d *asideDir) sweep() {
	names, _ := d.parent.Names() // as many as can be read
	for _, name := range names {
		if strings.HasPrefix(name, asidePrefix) && name != d.name {
			_ = d.removeName(name) // tried again by the next superd
		}
	}
}

// removeTree removes a directory whose name is not used again.
func removeTree(path string) error {
	at := strings.LastIndexByte(path, '/')
	parent, err := safepath.OpenDir(path[:at+1])
	if err != nil {
		return err
	}
	d := asideDir{path, parent, path[at+1:]}
	return d.remove()
}

// remove removes the directory, and closes its parent.
func (d *asideDir) remove() error {
	defer d.parent.Close()
	return d.removeName(d.name)
}

func (d *asideDir) removeName(name string) error {
	fd, err := unix.Openat(d.parent.FD(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	tree, err := newFileTree(fd, func() bool { return false })
	if err == nil {
		err = tree.remove()
	}
	if err != nil {
		return err
	}
	return unix.Unlinkat(d.parent.FD(), name, unix.AT_REMOVEDIR)
}
