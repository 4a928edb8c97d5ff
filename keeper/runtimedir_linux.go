package keeper

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// runtimeFile is the name under which the runtime directory is stored.
const runtimeFile = "runtime"

// KeepRuntimeDir has the next supervisor find the runtime directory, whatever has become of the configuration file that names it.
func (l *Link) KeepRuntimeDir(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("keep runtime directory: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	if err := l.Store(runtimeFile, fd); err != nil {
		unix.Close(fd)
		return fmt.Errorf("keep runtime directory: %w", err)
	}
	return nil // open for as long as it is stored
}

// RuntimeDir returns the runtime directory of the supervisor in whose place this one was started; not ok: there was none, or it is not
// known.
func (l *Link) RuntimeDir() (path string, ok bool) {
	fd := l.Take(runtimeFile)
	if fd < 0 {
		return "", false
	}
	defer unix.Close(fd)
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", false
	}
	info, err := os.Stat(path)
	return path, err == nil && info.IsDir()
}
