package enforce

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// A mounter changes the mounts of a new mount namespace.
//
// It first opens a copy of each mount that the program shall see, while the host's are in place,
// and then mounts these copies from the root down. So a path may be visible within one that is not,
// and a mount keeps its own flags within a read-only one.
type mounter struct {
	*Sandbox
	host  int    // descriptor of the host's root
	root  int    // descriptor of the new root
	above string // path of the new root on the host; "" for the host's
	views []view
	// copies of the host's devices, by name, for [sandbox.ViewDevices]
	devices map[string]*view
	log     string // target of the host's /dev/log; "": it is no link
}

// A view is a path that is to be mounted.
type view struct {
	sandbox.Path      // with its symbolic links resolved
	tree         int  // copy of a mount; -1: none
	isDir        bool //
}

const (
	openTree     = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	moveMount    = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	openPath     = unix.O_PATH | unix.O_CLOEXEC
	keyRoot      = "root_directory"
	placeScratch = "/dev" // a directory that each machine has
)

// mount gives the thread a mount namespace with the plan's mounts.
func (s *Sandbox) mount() error {
	mask := unix.Umask(0)
	defer unix.Umask(mask)
	m := &mounter{Sandbox: s, host: -1, root: -1}
	if err := m.begin(); err != nil {
		return s.checkAll(err)
	}
	if err := m.openRoot(); err != nil {
		if err := s.check(keyRoot, s.plan.Root, err); err != nil {
			return err
		}
		return s.checkAll(err)
	}
	if err := m.collect(); err != nil {
		return err
	}
	for i := range m.views {
		v := &m.views[i]
		if err := s.check(v.Key, v.Path.Path, m.show(v)); err != nil {
			return err
		}
	}
	if s.plan.Root != "" {
		return s.check(keyRoot, s.plan.Root, m.enterRoot())
	}
	return nil
}

// begin makes the mount namespace.
func (m *mounter) begin() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	// Mounts of the host still arrive, so that it can unmount what is mounted here, too.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
}

// checkAll is [Sandbox.check] for each key that demands a mount.
func (s *Sandbox) checkAll(err error) error { return s.checkEach(s.plan.MountKeys(), err) }

// openRoot opens the new root. It makes it a mount of its own, if it is not the host's.
func (m *mounter) openRoot() (err error) {
	m.host, err = unix.Open("/", openPath|unix.O_DIRECTORY, 0)
	m.root = m.host
	if err != nil || m.plan.Root == "" {
		return err
	}
	place, err := m.open(m.plan.Root)
	if err != nil {
		return err
	}
	tree, err := unix.OpenTree(place, "", openTree|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", place, "", moveMount); err != nil {
		return err
	}
	m.root = tree
	m.above, err = pathOf(tree)
	return err
}

// enterRoot makes the new root that of the process, and unmounts the host's.
func (m *mounter) enterRoot() error {
	if err := unix.Fchdir(m.root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// open opens a path below the new root.
func (m *mounter) open(path string) (int, error) { return m.Sandbox.open(m.root, path) }

// openResolved opens a path below the new root that has been resolved.
func (m *mounter) openResolved(path string) (int, error) { return openResolved(m.root, path) }

// collect fills m.views.
func (m *mounter) collect() error {
	hidden := 0
	for _, p := range m.plan.Paths {
		v := view{Path: p, tree: -1}
		err := m.resolve(&v)
		if p.Optional && m.isMissing(err) {
			continue
		}
		if err := m.check(p.Key, p.Path, err); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		if v.View == sandbox.ViewNothing {
			hidden++
		}
		m.views = append(m.views, v)
	}
	m.views = sandbox.ArrangeBy(m.views, func(v *view) *sandbox.Path { return &v.Path })
	if hidden > 0 {
		return m.makeNothing()
	}
	return nil
}

// isMissing reports whether err says that a path is not there for the program. In a user namespace
// the program has the shim's user: what that can't reach, it can't, either.
func (m *mounter) isMissing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) ||
		errors.Is(err, unix.EACCES) && m.plan.UserNamespace != nil
}

// resolve finds out what a path is, and copies the mount that it is to show.
func (m *mounter) resolve(v *view) error {
	fd, err := m.open(v.Path.Path)
	if v.Source != "" {
		if err == nil {
			v.Path.Path, err = m.inside(fd)
			unix.Close(fd)
		}
		if errors.Is(err, unix.ENOENT) && (m.above != "" || !v.Optional) {
			v.Path.Path, err = m.resolveMissing(v.Path.Path)
		}
		if err != nil {
			return err
		}
		fd, err = m.Sandbox.open(m.host, v.Source)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if v.Source == "" {
		if v.Path.Path, err = m.inside(fd); err != nil {
			return err
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	v.isDir = stat.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case v.View == sandbox.ViewDevices || v.View == sandbox.ViewReadOnlyDevices:
		m.log = logLink()
		m.devices, err = copyDevices()
		return err
	case v.View == sandbox.ViewNothing || v.Path.Path == "/":
		return nil
	}
	flags := uint(openTree)
	if v.isDir {
		flags |= unix.AT_RECURSIVE
	}
	v.tree, err = unix.OpenTree(fd, "", flags)
	if err == nil && m.above != "" && v.Source != "" && !m.replaces(v.Path.Path) {
		return m.makePlace(v)
	}
	return err
}

// replaces reports whether a path is in a view that replaces what the new root has there, and so
// has the place of the path.
func (m *mounter) replaces(path string) bool {
	return slices.ContainsFunc(m.views, func(v view) bool {
		return v.Source != "" && strings.HasPrefix(path, v.Path.Path+"/")
	})
}

// resolveMissing resolves the part of a path that is there.
func (m *mounter) resolveMissing(path string) (string, error) {
	dir, name := filepath.Split(path)
	fd, err := m.open(dir)
	if errors.Is(err, unix.ENOENT) {
		dir, err = m.resolveMissing(filepath.Clean(dir))
	} else if err == nil {
		dir, err = m.inside(fd)
		unix.Close(fd)
	}
	return filepath.Join(dir, name), err
}

// makePlace makes the place of a view, while the new root can be written.
func (m *mounter) makePlace(v *view) error {
	fd, err := m.place(v)
	if err == unix.EROFS && v.Optional {
		return unix.ENOENT
	}
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// inside returns the path of a descriptor below the new root.
func (m *mounter) inside(fd int) (string, error) {
	path, err := pathOf(fd)
	return filepath.Join("/", strings.TrimPrefix(path, m.above)), err
}

// pathOf returns the path of a descriptor.
func pathOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// show mounts what is to be seen at a path.
func (m *mounter) show(v *view) error {
	switch {
	case v.Path.Path == "/" && v.View == sandbox.ViewReadOnly:
		return readOnly(m.root, unix.AT_RECURSIVE)
	case v.Path.Path == "/":
		return unix.ENOTSUP
	case v.View == sandbox.ViewDevices:
		return m.showDevices(v, 0)
	case v.View == sandbox.ViewReadOnlyDevices:
		return m.showDevices(v, unix.AT_RECURSIVE)
	case v.tree < 0:
		return nil // it is a warning already
	}
	if v.View == sandbox.ViewReadOnly {
		if err := readOnly(v.tree, unix.AT_RECURSIVE); err != nil {
			return err
		}
	}
	target, err := m.place(v)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	defer unix.Close(v.tree)
	return unix.MoveMount(v.tree, "", target, "", moveMount)
}

// readOnly makes a mount read-only, and with AT_RECURSIVE those below it, too.
func readOnly(fd int, flags uint) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// place opens the place where a view is to be mounted. It makes that if it is missing, as in a
// directory that replaces the host's.
func (m *mounter) place(v *view) (int, error) {
	fd, err := m.openResolved(v.Path.Path)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	dir, err := m.openResolved("/")
	if err != nil {
		return -1, err
	}
	names := strings.Split(strings.Trim(v.Path.Path, "/"), "/")
	for i, name := range names {
		if i == len(names)-1 && !v.isDir {
			err = makeFile(dir, name)
		} else if err = unix.Mkdirat(dir, name, 0o755); err == unix.EEXIST {
			err = nil
		}
		unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir, err = m.openResolved(strings.Join(names[:i+1], "/"))
		if err != nil {
			return -1, err
		}
	}
	return dir, nil
}

// makeFile makes an empty file.
func makeFile(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// makeDir makes an empty directory.
func makeDir(dir int, name string) error { return unix.Mkdirat(dir, name, 0o755) }
