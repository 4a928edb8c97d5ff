// Package syscalls repeats system calls that a signal interrupts.
package syscalls

import "golang.org/x/sys/unix"

// Retry calls f until it returns another error than EINTR.
func Retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// RetryInt calls f until it returns another error than EINTR. The number is what f returns beside
// the error: a descriptor or a count of bytes.
func RetryInt(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != unix.EINTR {
			return n, err
		}
	}
}
