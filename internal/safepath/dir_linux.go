package safepath

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A Dir is an open directory, with what is known about who may change its entries. Entries are
// named relative to it, and no method follows a link in an entry. It belongs to one goroutine,
// which closes it.
type Dir struct {
	fd      int
	path    string // path that was walked, with links resolved
	info    Info
	trust   trust
	exposed string // who may create entries, and where; "": only root and superd's user
	sticky  bool   // exposed, but only owners may replace their entries
	magic   bool   // in procfs: an entry is the file that it leads to, and has no other name
}

// OpenDir opens a directory.
func OpenDir(path string) (*Dir, error) {
	w, err := newWalk("open", path)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.descend(len(w.rest)); err != nil {
		return nil, err
	}
	return w.pop(), nil
}

// MakeDir opens a directory, and first creates missing directories of the path with that mode.
func MakeDir(path string, mode fs.FileMode) (*Dir, error) {
	w, err := newWalk("make", path)
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.mode = uint32(mode.Perm())
	if err := w.descend(len(w.rest)); err != nil {
		return nil, err
	}
	return w.pop(), nil
}

// Locate opens the directory that holds, or would hold, the file at path, and returns its name
// there. If the last name is a link, it is followed where that is safe; its target need not exist.
func Locate(path string) (dir *Dir, name string, err error) {
	w, err := newWalk("open", path)
	if err != nil {
		return nil, "", err
	}
	defer w.close()
	for {
		if len(w.rest) == 0 {
			return nil, "", w.fail(unix.EISDIR)
		}
		if err := w.descend(len(w.rest) - 1); err != nil {
			return nil, "", err
		}
		last := w.rest[0]
		if last == ".." || last == "." {
			return nil, "", w.fail(unix.EISDIR)
		}
		info, err := w.top().Stat(last)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, "", err
		case err != nil || info.Mode.Type() != fs.ModeSymlink:
			return w.pop(), last, nil
		}
		w.rest = nil
		if magic, err := w.follow(last, true); err != nil {
			return nil, "", err
		} else if magic {
			return w.pop(), last, nil
		}
	}
}

// Close closes the directory.
func (d *Dir) Close() { unix.Close(d.fd) }

// FD returns the directory's descriptor, opened with O_PATH, for calls such as mkfifoat(2). It is
// valid until Close.
func (d *Dir) FD() int { return d.fd }

// Path returns the directory's path, with links resolved.
func (d *Dir) Path() string { return d.path }

// Info returns the properties of the directory at the time it was opened.
func (d *Dir) Info() Info { return d.info }

// Exposed returns who else than root and superd's user may create entries, such as "user 1000 may
// write /home/a"; "" if nobody else.
func (d *Dir) Exposed() string { return d.exposed }

// Stat returns the properties of an entry, without following a link.
func (d *Dir) Stat(name string) (Info, error) {
	var st unix.Stat_t
	flags := unix.AT_NO_AUTOMOUNT
	if !d.magic {
		flags |= unix.AT_SYMLINK_NOFOLLOW
	}
	err := syscalls.Retry(func() error { return unix.Fstatat(d.fd, name, &st, flags) })
	if err != nil {
		return Info{}, &fs.PathError{Op: "examine", Path: d.join(name), Err: err}
	}
	return NewInfo(&st), nil
}

// A File is an opened entry.
type File struct {
	FD      int
	Info    Info
	Created bool   // created by this call
	Exposed string // who else may have created it, as in [Dir.Exposed]; "" if nobody else
}

// Open opens an entry with flags of open(2). With O_CREAT it creates a file of that mode, less the
// umask. The descriptor is close-on-exec and non-blocking; Open does not block. owners are users
// whose files are accepted there, beside root, superd's user and the directory's owner.
func (d *Dir) Open(name string, flags int, mode fs.FileMode, owners ...uint32) (File, error) {
	const tries = 8 // bound in case others create and remove it repeatedly
	make, trunc := flags&unix.O_CREAT != 0, flags&unix.O_TRUNC != 0
	only := make && flags&unix.O_EXCL != 0
	flags &^= unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC
	for try := 1; ; try++ {
		if !only {
			f, err := d.openThere(name, flags, owners)
			if err == nil && trunc && f.Info.Mode.IsRegular() && f.Info.Size > 0 {
				if err = syscalls.Retry(func() error { return unix.Ftruncate(f.FD, 0) }); err != nil {
					unix.Close(f.FD)
					return File{}, &fs.PathError{Op: "truncate", Path: d.join(name), Err: err}
				}
				f.Info.Size = 0
			}
			if err == nil || !make || !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		// A separate call: in a sticky directory the kernel refuses O_CREAT for files of other
		// users.
		f, err := d.openAt(name, flags|unix.O_CREAT|unix.O_EXCL, mode)
		if err == nil {
			f.Created = true
			return f, nil
		}
		if only || try == tries || !errors.Is(err, fs.ErrExist) {
			return File{}, err
		}
	}
}

// openThere opens an existing entry, and closes it again if it is refused.
func (d *Dir) openThere(name string, flags int, owners []uint32) (File, error) {
	f, err := d.openAt(name, flags, 0)
	if err != nil {
		if d.exposed != "" { // instead of ELOOP, ENXIO or EISDIR, name the kind of file
			info, serr := d.Stat(name)
			if serr == nil && !info.Mode.IsRegular() && !d.trust.trustsEntry(&info, d.sticky) {
				return File{}, d.refuse(name, d.trust.refusal(&info))
			}
		}
		return File{}, err
	}
	if d.exposed != "" && !d.trust.trustsEntry(&f.Info, d.sticky) {
		f.Exposed = d.exposed
	}
	if what := d.refusal(&f.Info, owners); what != "" {
		unix.Close(f.FD)
		return File{}, d.refuse(name, what)
	}
	return f, nil
}

// refusal returns why an entry must not be opened, "" if it may be.
func (d *Dir) refusal(entry *Info, owners []uint32) string {
	if d.exposed == "" || d.trust.trustsEntry(entry, d.sticky) {
		return ""
	}
	return d.trust.refusal(entry, append(slices.Clip(owners), d.info.UID)...)
}

// Check returns why an entry, with the result of Stat, must not be used, by the rules of Open; nil
// if it may be.
func (d *Dir) Check(name string, entry Info, owners ...uint32) error {
	if what := d.refusal(&entry, owners); what != "" {
		return d.refuse(name, what)
	}
	return nil
}

func (d *Dir) refuse(name, what string) error {
	return &RefusedError{Op: "open", Path: d.join(name), What: what, Exposed: d.exposed}
}

func (d *Dir) openAt(name string, flags int, mode fs.FileMode) (f File, err error) {
	if !d.magic {
		flags |= unix.O_NOFOLLOW
	}
	flags |= unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	err = syscalls.Retry(func() (err error) {
		f.FD, err = unix.Openat(d.fd, name, flags, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return File{}, &fs.PathError{Op: "open", Path: d.join(name), Err: err}
	}
	if f.Info, err = StatFD(f.FD); err != nil {
		unix.Close(f.FD)
		return File{}, &fs.PathError{Op: "examine", Path: d.join(name), Err: err}
	}
	return f, nil
}

// OpenNameless creates a file without a name on the file system of the directory, for reading and
// writing. If the file system does not support that, it creates a named file and removes the name.
func (d *Dir) OpenNameless() (fd int, err error) {
	const flags = unix.O_RDWR | unix.O_CLOEXEC
	open := func(name string, how int) (err error) {
		return syscalls.Retry(func() (err error) {
			fd, err = unix.Openat(d.fd, name, flags|how, 0o600)
			return err
		})
	}
	if err = open(".", unix.O_TMPFILE); err != nil {
		name := temporaryName()
		if err = open(name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW); err == nil {
			if err = unix.Unlinkat(d.fd, name, 0); err != nil {
				unix.Close(fd)
			}
		}
	}
	if err != nil {
		return -1, &fs.PathError{Op: "make a file in", Path: d.path, Err: err}
	}
	return fd, nil
}

// Names returns the names of the entries, sorted.
func (d *Dir) Names() ([]string, error) {
	var fd int
	err := syscalls.Retry(func() (err error) {
		fd, err = unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), d.path)
	defer dir.Close()
	all, err := dir.Readdirnames(-1)
	slices.Sort(all)
	return all, err
}

// Remove removes an entry other than a directory; of a link, the link itself.
func (d *Dir) Remove(name string) error {
	if d.magic {
		return &fs.PathError{Op: "remove", Path: d.join(name), Err: unix.EPERM}
	}
	if err := syscalls.Retry(func() error { return unix.Unlinkat(d.fd, name, 0) }); err != nil {
		return &fs.PathError{Op: "remove", Path: d.join(name), Err: err}
	}
	return nil
}

// Rename renames an entry, and replaces an entry with the new name.
func (d *Dir) Rename(from, to string) error {
	return d.linkError(from, to, syscalls.Retry(func() error { return unix.Renameat(d.fd, from, d.fd, to) }))
}

// RenameNew renames an entry, and returns fs.ErrExist if the new name exists. If file system or
// kernel can't check that atomically, it checks before.
func (d *Dir) RenameNew(from, to string) error {
	if d.magic { // the kernel reports ENOENT
		return d.linkError(from, to, unix.EPERM)
	}
	err := syscalls.Retry(func() error { return unix.Renameat2(d.fd, from, d.fd, to, unix.RENAME_NOREPLACE) })
	switch err {
	case unix.EINVAL, unix.ENOSYS, unix.EPERM:
		if _, serr := d.Stat(to); serr == nil {
			err = unix.EEXIST
		} else {
			return d.Rename(from, to)
		}
	}
	return d.linkError(from, to, err)
}

func (d *Dir) linkError(from, to string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: d.join(from), New: to, Err: err}
}

func (d *Dir) join(name string) string {
	if d.path == "/" {
		return "/" + name
	}
	return d.path + "/" + name
}
