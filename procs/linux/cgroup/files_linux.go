package cgroup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/internal/syscalls"
)

// openCgroup opens a cgroup as the target of a fork.
func openCgroup(dir string) (int, error) {
	return syscalls.RetryInt(func() (int, error) { return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
}

// populated reports whether a process lives in the cgroup or its descendants, true with an error.
// It reads a file that the kernel serves at once.
func populated(dir string) (bool, error) {
	var buf [256]byte
	switch n, err := procfs.ReadSmall(dir+"/cgroup.events", buf[:]); {
	case err == unix.ENOENT, err == unix.ENODEV:
		return false, nil
	case err != nil:
		return true, err
	default:
		return !bytes.Contains(buf[:n], []byte("populated 0")), nil
	}
}

func isCgroup(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// hasWord reports whether a file has word in a list separated by spaces.
func hasWord(file, word string) bool {
	text, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(text)), word)
}

// removePatience is how long the kernel may take to release a cgroup whose last process has just
// ended.
const removePatience = 500 * time.Millisecond

// removeCgroup removes a cgroup and its descendants. It does nothing if there is none.
func removeCgroup(dir string, patience time.Duration) error {
	for deadline, pause := time.Now().Add(patience), time.Millisecond; ; {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || err == unix.ENOENT:
			return nil
		case err == unix.EINTR:
			continue
		case err != unix.EBUSY:
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		}
		removed := false
		for _, nested := range cgroupsIn(dir) { // one that can't be removed blocks dir, too
			removed = removeCgroup(nested, 0) == nil || removed
		}
		switch {
		case removed:
		case time.Now().After(deadline):
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		default:
			time.Sleep(pause)
			pause *= 2
		}
	}
}

func cgroupsIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	return dirs
}

// pidsIn returns the processes of a cgroup and its descendants.
func pidsIn(dir string) []int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	// a threaded cgroup: the parent lists its processes
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0: in another pid namespace
			pids = append(pids, pid)
		}
	}
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) == nil && stat.Nlink <= 2 {
		return pids // no children: the kernel counts them as links
	}
	for _, nested := range cgroupsIn(dir) {
		pids = append(pids, pidsIn(nested)...)
	}
	return pids
}

// writeFile writes to a file of the kernel, in one write.
func writeFile(path, text string) error {
	fd, err := syscalls.RetryInt(func() (int, error) { return unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err == nil {
		_, err = syscalls.RetryInt(func() (int, error) { return unix.Write(fd, []byte(text)) })
		unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// cause removes operation and path from an error: the message around it has them.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
