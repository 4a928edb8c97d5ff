package enforce

import (
	"strconv"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// devices are what a program with private devices has of the host's /dev, as far as that has them.
var devices = []string{
	"null", "zero", "full", "random", "urandom", "tty", "pts", "shm", "mqueue", "hugepages", "log",
}

// links are the symbolic links of any /dev.
var links = [][2]string{
	{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"},
}

// copyDevices copies the mounts of the host's devices, before they may become read-only.
func copyDevices() (map[string]*view, error) {
	all := map[string]*view{}
	for _, name := range devices {
		device, err := copyDevice("/dev/" + name)
		switch err {
		case nil:
			all[name] = device
		case unix.ENOENT, unix.ELOOP:
		default:
			return nil, err
		}
	}
	return all, nil
}

// showDevices mounts a /dev with harmless devices only. They are those of the host, since a user
// namespace may make none. With AT_RECURSIVE the directories in it are read-only, too.
func (m *mounter) showDevices(v *view, flags uint) error {
	target, err := m.place(v)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	dev, err := mountTmpfs(target, 0) // without NODEV for ptmx; it becomes read-only
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	for _, link := range append([][2]string{{m.log, "log"}}, links...) {
		if link[0] == "" {
			continue
		}
		if err := unix.Symlinkat(link[0], dev, link[1]); err != nil {
			return err
		}
	}
	if err := makePtmx(dev); err != nil {
		return err
	}
	for name, device := range m.devices {
		if err := device.mountIn(dev, name); err != nil {
			return err
		}
	}
	return readOnly(dev, flags)
}

// copyDevice copies the mount of a device of the host; ELOOP for a symbolic link.
func copyDevice(path string) (*view, error) {
	fd, err := unix.Open(path, openPath|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	v, flags := new(view), uint(openTree)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil, unix.ELOOP
	case unix.S_IFDIR:
		v.isDir = true
		flags |= unix.AT_RECURSIVE
	}
	v.tree, err = unix.OpenTree(fd, "", flags)
	return v, err
}

// mountIn mounts v under a new name in a directory.
func (v *view) mountIn(dir int, name string) error {
	defer unix.Close(v.tree)
	create := makeFile
	if v.isDir {
		create = makeDir
	}
	if err := create(dir, name); err != nil {
		return err
	}
	target, err := unix.Openat(dir, name, openPath|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return unix.MoveMount(v.tree, "", target, "", moveMount)
}

// makePtmx makes the device with which a program makes pseudo-terminals. The kernel looks for these
// beside it, so the host's can't be mounted. A user namespace may make no device: there it is a
// link to the one beside the terminals, which only root may open in most systems.
func makePtmx(dev int) error {
	const major, minor = 5, 2
	err := unix.Mknodat(dev, "ptmx", unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor)))
	if err != unix.EPERM {
		return err
	}
	return unix.Symlinkat("pts/ptmx", dev, "ptmx")
}

// logLink returns the target of the symbolic link /dev/log, which systemd makes; "" if it is none.
func logLink() string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/dev/log", buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// mountTmpfs mounts an empty file system without rights to run, and with further attributes, and
// returns its root.
func mountTmpfs(target, attributes int) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, option := range [][2]string{{"mode", "0755"}, {"size", "64k"}} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|attributes)
	if err != nil {
		return -1, err
	}
	if err := unix.MoveMount(root, "", target, "", moveMount); err != nil {
		unix.Close(root)
		return -1, err
	}
	return root, nil
}

// makeNothing gives each view that shows nothing an empty file or directory without rights. They
// are made in a file system that is mounted for that only.
func (m *mounter) makeNothing() error {
	failed := func(err error) error {
		for _, v := range m.views {
			if v.View == sandbox.ViewNothing {
				if err := m.check(v.Key, v.Path.Path, err); err != nil {
					return err
				}
			}
		}
		return nil
	}
	target, err := unix.Open(placeScratch, openPath|unix.O_DIRECTORY, 0)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(target)
	scratch, err := mountTmpfs(target, unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return failed(err)
	}
	defer unix.Close(scratch)
	for i := range m.views {
		v := &m.views[i]
		if v.View != sandbox.ViewNothing {
			continue
		}
		if err := m.check(v.Key, v.Path.Path, v.makeNothing(scratch, strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return failed(unix.Unmount(placeScratch, unix.MNT_DETACH))
}

// makeNothing makes an empty file or directory in scratch and copies its mount.
func (v *view) makeNothing(scratch int, name string) (err error) {
	if v.isDir {
		err = unix.Mkdirat(scratch, name, 0)
	} else if err = makeFile(scratch, name); err == nil {
		err = unix.Fchmodat(scratch, name, 0, 0)
	}
	if err != nil {
		return err
	}
	if v.tree, err = unix.OpenTree(scratch, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
		return err
	}
	return readOnly(v.tree, 0)
}
