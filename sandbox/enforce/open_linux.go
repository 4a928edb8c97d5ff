package enforce

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// open opens a path below a root. Symbolic links don't lead out of that. Those that the program's
// user owns are not followed (ELOOP): otherwise one run could choose what the sandbox of the next
// one opens.
func (s *Sandbox) open(root int, path string) (int, error) {
	if s.plan.User == nil {
		return openat(root, path, openPath, unix.RESOLVE_IN_ROOT)
	}
	fd, err := openResolved(root, path)
	if err != unix.ELOOP {
		return fd, err
	}
	resolved, err := s.follow(root, path)
	if err != nil {
		return -1, err
	}
	return openResolved(root, resolved)
}

// openResolved opens a path that has been resolved. A symbolic link in it is the program's, which
// can write there: ELOOP.
func openResolved(root int, path string) (int, error) {
	return openat(root, path, openPath, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
}

func openat(root int, path string, flags, resolve uint64) (fd int, err error) {
	path = strings.TrimPrefix(path, "/")
	if path == "" {
		path = "."
	}
	const most = 100 // a rename or a mount elsewhere at the same time is EAGAIN
	for range most {
		fd, err = unix.Openat2(root, path, &unix.OpenHow{Flags: flags, Resolve: resolve})
		if err != unix.EAGAIN {
			break
		}
	}
	if err == unix.ENOSYS || err == unix.EPERM { // missing rights are EACCES
		err = openRefusedError{err}
	}
	return fd, err
}

// An openRefusedError says that there is no openat2.
type openRefusedError struct{ error }

func (e openRefusedError) Unwrap() error { return e.error }

// follow returns a path without its symbolic links. What is changed meanwhile is found when the
// result is opened.
func (s *Sandbox) follow(root int, name string) (string, error) {
	const most = 40 // as in the kernel
	at, rest, links := "/", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0]) // resolves ..
		rest = rest[1:]
		target, err := s.readLink(root, next)
		if err != nil {
			return "", err
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > most {
			return "", unix.ELOOP
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// readLink returns the target of a symbolic link, "" for what is none.
func (s *Sandbox) readLink(root int, path string) (string, error) {
	fd, err := openat(root, path, openPath|unix.O_NOFOLLOW, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", err
	}
	if int(stat.Uid) == *s.plan.User {
		return "", unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	return string(buf[:n]), err
}
