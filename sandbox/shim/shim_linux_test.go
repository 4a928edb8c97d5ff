package shim

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileAfterFailure: a failure to make the file is not for ever, and the file is made once.
func TestFileAfterFailure(t *testing.T) {
	if errors.Is(Built(), ErrNotBuilt) {
		t.Skip("without the shim: run make build before")
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: soft, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	var f File
	set(0)
	_, err := f.Descriptor()
	set(limit.Cur)
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("without a free descriptor: %v, want EMFILE", err)
	}
	first, err := f.Descriptor()
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	defer unix.Close(first)
	if again, err := f.Descriptor(); again != first || err != nil {
		t.Errorf("the second time: %d, %v, want %d", again, err, first)
	}
}
