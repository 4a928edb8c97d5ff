package pipe

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestIsRefused(t *testing.T) {
	for err, want := range map[error]bool{unix.ENOSYS: true, unix.EPERM: true, unix.EAGAIN: false, unix.ENOSPC: false, nil: false} {
		if got := isRefused(err); got != want {
			t.Errorf("isRefused(%v) = %v, want %v", err, got, want)
		}
	}
}
