package supervisor

import (
	"os"

	"golang.org/x/sys/unix"

	"superd/internal/safepath"
)

// OpenLog opens a log file, whose directory the user of a program may write. It is an [OpenFunc].
func OpenLog(path string) (*os.File, error) {
	f, err := safepath.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(f.FD), path), nil
}
