// Package shim has the binary of cmd/superd-exec, embedded when superd is built.
package shim

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// bin has a page beside the binary, so that superd can be built before that.
//
//go:embed bin
var bin embed.FS

// file is the binary in bin.
const file = "bin/superd-exec"

// ErrNotBuilt says that this superd was built without the shim.
var ErrNotBuilt = errors.New("this superd was built without the exec shim for sandboxes: build it by make build")

// Built returns [ErrNotBuilt], or nil.
func Built() error {
	if _, err := bin.Open(file); err != nil {
		return ErrNotBuilt
	}
	return nil
}

// A File has the binary in memory. The zero value is ready to use, by several goroutines.
type File struct {
	mu   sync.Mutex
	made bool
	fd   int
}

// Descriptor returns the descriptor of the file, which is made at the first use and stays open. A
// failure may be over at the next use.
func (f *File) Descriptor() (fd int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.made {
		if f.fd, err = Open(); err != nil {
			return -1, err
		}
		f.made = true
	}
	return f.fd, nil
}

// Open returns a new sealed file in memory that has the binary, which the caller closes.
//
// Source: memfd_create(2), sysctl vm.memfd_noexec.
func Open() (fd int, err error) {
	binary, err := bin.Open(file)
	if err != nil {
		return -1, ErrNotBuilt
	}
	defer binary.Close()
	const name = "superd-exec"
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err == unix.EACCES {
		return -1, fmt.Errorf("make file in memory: %w: set the sysctl vm.memfd_noexec to 0 or 1", err)
	}
	if err != nil {
		return -1, fmt.Errorf("make file in memory: %w", err)
	}
	if err := fill(fd, binary); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("write exec shim: %w", err)
	}
	return fd, nil
}

// copySize is how much of the binary is copied at a time. ReadFile would need memory for all of it.
const copySize = 32 << 10

// fill writes a binary into a file in memory, which nobody can change afterwards.
func fill(fd int, binary io.Reader) error {
	if _, err := io.CopyBuffer(writer(fd), binary, make([]byte, copySize)); err != nil {
		return err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return err
}

// A writer writes to a descriptor.
type writer int

func (w writer) Write(text []byte) (n int, err error) {
	for n < len(text) {
		written, err := unix.Write(int(w), text[n:])
		if err != nil && err != unix.EINTR {
			return n, err
		}
		n += max(written, 0)
	}
	return n, nil
}
