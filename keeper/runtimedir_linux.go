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

// RuntimeDir returns the runtime directory of the predecessor; ok is false if there was none, or
// its path is unknown. usual is where it is unless the configuration said otherwise.
//
// A service with mounts of its own gets new ones with each start. The kernel then shows a path in
// mounts that are gone, such as /, so the path must lead to the stored directory.
func (l *Link) RuntimeDir(usual string) (path string, ok bool) {
	fd := l.Take(runtimeFile)
	if fd < 0 {
		return "", false
	}
	stored := os.NewFile(uintptr(fd), runtimeFile)
	defer stored.Close()
	directory, err := stored.Stat()
	if err != nil {
		return "", false
	}
	shown, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		shown = usual
	}
	for _, path := range []string{shown, usual} {
		if info, err := os.Stat(path); err == nil && os.SameFile(info, directory) {
			return path, true
		}
	}
	return "", false
}
