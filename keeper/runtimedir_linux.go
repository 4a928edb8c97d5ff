package keeper

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// runtimeFile is the name of the stored runtime directory.
const runtimeFile = "runtime"

// StoreRuntimeDir stores the runtime directory for the successor, since the configuration file
// that names it may change.
func (l *Link) StoreRuntimeDir(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("store runtime directory: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	if err := l.Store(runtimeFile, fd); err != nil {
		unix.Close(fd)
		return fmt.Errorf("store runtime directory: %w", err)
	}
	return nil // stays open while it is stored
}

// RuntimeDir returns the runtime directory of the predecessor; ok is false if there was none, or it
// is unknown.
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
