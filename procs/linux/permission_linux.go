package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// rights are a user's rights to enter directories and to execute files, by mode bits. With them
// superd names beforehand what the kernel is going to refuse.
type rights struct {
	name string // for messages
	uid  uint32
	gids []uint32
}

// A refusal is the part of a path that a user can't pass.
type refusal struct {
	name, part string
	stat       unix.Stat_t
}

func (r *refusal) Error() string {
	verb := "execute"
	if r.stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		verb = "enter"
	}
	return fmt.Sprintf("%s may not %s %s (mode %04o, owner %d:%d)", r.name, verb, r.part, r.stat.Mode&0o7777, r.stat.Uid, r.stat.Gid)
}

// Unwrap returns the kernel's error.
func (r *refusal) Unwrap() error { return unix.EACCES }

// maxSymlinks is how many symbolic links the kernel follows in one path. Source: man 7
// path_resolution.
const maxSymlinks = 40

// refuses returns the first part of an absolute path that the user may neither enter nor execute;
// nil if the mode bits refuse none. It leaves parts with an access control list, and parts that
// superd can't examine, to the kernel.
func (r *rights) refuses(path string) error {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for {
		var stat unix.Stat_t
		if err := unix.Lstat(at, &stat); err != nil {
			return nil
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			target, err := os.Readlink(at)
			if links++; err != nil || links > maxSymlinks {
				return nil
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		} else if !r.mayPass(&stat) && !hasACL(at) {
			return &refusal{name: r.name, part: at, stat: stat}
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

// mayPass reports whether the bit x is set for the user. The first matching class decides.
func (r *rights) mayPass(stat *unix.Stat_t) bool {
	switch {
	case r.uid == 0:
		return stat.Mode&unix.S_IFMT == unix.S_IFDIR || stat.Mode&0o111 != 0
	case r.uid == stat.Uid:
		return stat.Mode&0o100 != 0
	case slices.Contains(r.gids, stat.Gid):
		return stat.Mode&0o010 != 0
	}
	return stat.Mode&0o001 != 0
}

// hasACL reports whether the path has an access control list. Source: man 5 acl.
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// checkDirectory checks whether the program can enter its directory. user is nil if the program has
// superd's rights. unseen means that superd itself was denied access, and the user may have it.
func checkDirectory(dir string, user *rights) (unseen bool, err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return user != nil && errors.Is(err, unix.EACCES), refusedAccess(dir, user, err)
}

// refusedAccess returns why path can't be entered or executed. err is the result of superd's own
// attempt to examine it.
func refusedAccess(path string, user *rights, err error) error {
	switch {
	case user == nil && err == nil:
		err = unix.Access(path, unix.X_OK)
		fallthrough
	case user == nil:
		if errors.Is(err, unix.EACCES) {
			if refusal := superdRights().refuses(path); refusal != nil {
				return refusal
			}
		}
		return err
	case errors.Is(err, unix.EACCES):
		// the user may have access that superd lacks, as on a network file system that distrusts
		// root
		return nil
	case err != nil:
		return err
	}
	return user.refuses(path)
}
