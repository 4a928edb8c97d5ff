package syscalls

import "golang.org/x/sys/unix"

// Open opens a file. The descriptor is close-on-exec.
func Open(path string, flags int) (fd int, err error) {
	return RetryInt(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
}

// Write writes p and returns how many bytes were written. It waits if fd is blocking.
func Write(fd int, p []byte) (n int, err error) {
	n, err = RetryInt(func() (int, error) { return unix.Write(fd, p) })
	return max(n, 0), err
}

// Close closes fd, which may be -1. Errors of close concern writers.
func Close(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
