package pidfd

import (
	"math"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// roomOf returns the capacity of a process's descriptor table.
func roomOf(t *testing.T, pid int) int {
	t.Helper()
	room, err := strconv.Atoi(status(t, pid, "FDSize"))
	if err != nil {
		t.Fatal(err)
	}
	return room
}

func TestMakeRoom(t *testing.T) {
	n := roomOf(t, os.Getpid()) + 1
	MakeRoom(n)
	if room := roomOf(t, os.Getpid()); room < n {
		t.Errorf("room for %d descriptors, want %d", room, n)
	}
	if _, err := unix.FcntlInt(uintptr(n-1), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("descriptor %d is open: %v", n-1, err)
	}
	MakeRoom(math.MaxInt) // beyond the limit
}
