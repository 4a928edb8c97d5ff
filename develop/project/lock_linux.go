package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process starts or runs the project.
var ErrLocked = errors.New("another superd up starts or runs it")

// Lock locks the project for who starts it, until the file is closed. The directories of the
// project exist.
func (p *Project) Lock() (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(p.dir, "up.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock project: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock project: %w", err)
}
