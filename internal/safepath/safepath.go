// Package safepath opens paths in directories that other users may write.
//
// superd often runs as root and opens paths named in a configuration. Another user that may write a
// directory of the path may replace what superd expects: by a symbolic link to /etc/passwd, a hard
// link to it, or a FIFO that blocks the open. So the path is walked one name at a time from the
// root directory. Each name is relative to the descriptor of the directory checked before, and
// links that another user may have made are not followed.
//
// # The rule
//
// A directory is exposed if another user than root and superd's own may write it: it has another
// owner, is writable for a group other than 0 or for all users, or its access control list names
// another user. All below an exposed directory is exposed, too, since it can be moved. An entry of
// an exposed directory is still trusted if it belongs to root or to superd's user, has only one
// name, and
//
//   - the directory is sticky and has a trusted owner, as /tmp: no other user may replace it, or
//   - superd does not run as root: then it has no rights to lend, and may use its own files.
//
// Outside exposed directories, and for trusted entries, the administrator's setup counts: links are
// followed, also as the last name, and devices and FIFOs are opened. An exposed entry that is not
// trusted is used only if it is not a symbolic link. It is opened only if it is a regular file with
// one name. It must belong to root, to superd's user, to the owner of the directory, or to a user
// that the caller names.
//
// All else is a [*RefusedError]. Other errors are those of package os.
//
// A member of group 0 counts as root: an administrator that adds a user to it, or lets it write a
// directory, means root's own staff. logrotate and sudo, for sudoers, do the same; systemd-tmpfiles
// checks owners only. sshd refuses what any group may write, but only for the keys of one user.
// Here root:root 0775, from a umask of 002, would become exposed, and the administrator's links
// below it would be refused. Where images run any user with group 0, superd itself is not root, and
// lends no rights.
//
// # Why
//
// Refusing exposed directories altogether would refuse what daemons need, since their log directory
// belongs to them. Opening with the rights of that user (setfsuid) leaves open which user that is
// if a group may write. It also fails in containers without CAP_SETUID, and can't read what root
// wrote there before. openat2 with RESOLVE_NO_SYMLINKS would refuse the administrator's links, such
// as /var/run, and is missing before Linux 5.6 and under older seccomp filters; the walk needs only
// openat.
//
// The rule relies on what every kernel does: a hard link from another directory increases the link
// count, only root can give files away, and a directory can be moved out of its parent only with
// write permission for it. With fs.protected_hardlinks off, another user may keep the last name of
// a file of root that was replaced. So give away rights on a file only if [File].Exposed is "".
package safepath

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// An Info holds the properties of a file that checks use.
type Info struct {
	Device, Inode uint64
	UID, GID      uint32
	Mode          fs.FileMode // kind and permissions
	Links         uint64      // number of hard links
	Null          bool        // is the null device, /dev/null
	Size          int64       // bytes
	Allocated     int64       // bytes on disk; less than Size for a file with holes
	Changed       time.Time   // last change of the content
}

// A RefusedError reports a path that is not used since another user may control it.
type RefusedError struct {
	Op, Path string
	What     string // what is wrong with the file, such as "it is a symbolic link"
	Exposed  string // why that matters, such as "user 1000 may write /home/a"
}

func (e *RefusedError) Error() string {
	const remedy = "remove it, or name a path below directories that only root and superd's user may write"
	return fmt.Sprintf("%s %s: %s, and %s: %s", e.Op, e.Path, e.What, e.Exposed, remedy)
}

// A trust says which users' files are trusted.
type trust struct {
	self uint32 // superd's user
	// Reports that an owner is outside the user namespace, and so has power over it
	outside func(uint32) bool
}

func (t trust) trusts(uid uint32) bool {
	return uid == 0 || uid == t.self || t.outside(uid)
}

// exposure returns which untrusted users may write a directory, "" if none. acl returns its access
// control list; it is called only if needed.
func (t trust) exposure(dir *Info, acl func() ([]byte, error)) string {
	switch {
	case !t.trusts(dir.UID):
		return fmt.Sprintf("user %d", dir.UID)
	case dir.Mode&0o002 != 0:
		return "every user"
	case dir.Mode&0o020 == 0: // the group bits are also the mask of the list
		return ""
	case dir.GID != 0:
		return fmt.Sprintf("group %d", dir.GID)
	}
	list, err := acl()
	if err != nil {
		return "someone in its access control list, which can't be read,"
	}
	return t.listed(list)
}

// listed returns which untrusted users the access control list lets write a directory.
//
// Source: linux:include/uapi/linux/posix_acl_xattr.h; man 5 acl.
func (t trust) listed(acl []byte) string {
	const (
		head, size         = 4, 8 // bytes
		aUser, aGroup, may = 0x02, 0x08, 0o2
	)
	for at := head; at+size <= len(acl); at += size {
		tag := binary.LittleEndian.Uint16(acl[at:])
		rights := binary.LittleEndian.Uint16(acl[at+2:])
		id := binary.LittleEndian.Uint32(acl[at+4:])
		switch {
		case rights&may == 0:
		case tag == aUser && !t.trusts(id):
			return fmt.Sprintf("user %d", id)
		case tag == aGroup && id != 0:
			return fmt.Sprintf("group %d", id)
		}
	}
	return ""
}

// trustsEntry reports whether only trusted users can have created an entry of an exposed directory.
// sticky says that only owners may replace their entries there.
func (t trust) trustsEntry(entry *Info, sticky bool) bool {
	return t.trusts(entry.UID) && (entry.Mode.IsDir() || entry.Links == 1) && (sticky || t.self != 0)
}

// refusal returns what is wrong with an untrusted entry of an exposed directory, "" if nothing.
// owners are users who may have files there.
func (t trust) refusal(entry *Info, owners ...uint32) string {
	switch {
	case !entry.Mode.IsRegular():
		return "it is " + kind(entry.Mode)
	case entry.Links > 1:
		return fmt.Sprintf("it has %d names (hard links)", entry.Links)
	case t.trusts(entry.UID):
		return ""
	}
	for _, uid := range owners {
		if uid == entry.UID {
			return ""
		}
	}
	return fmt.Sprintf("it belongs to user %d", entry.UID)
}

// kind returns a name for the type of a file that is not regular.
func kind(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSocket:
		return "a socket"
	}
	return "a device"
}

// names splits a path into its names.
func names(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
