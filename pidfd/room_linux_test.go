package pidfd

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// roomOf returns for how many descriptors the table of a process has room.
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
	MakeRoom(1 << 40) // beyond the limit
}

func TestSpawnWithRoom(t *testing.T) {
	slots, err := ReserveSlots(-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	few := &unix.Rlimit{Cur: 64, Max: 1024} // of the program: its table may be larger
	for name, slots := range map[string]*Slots{"a copy of all": nil, "slots": slots} {
		t.Run(name, func(t *testing.T) {
			const n = 2000
			c := spawnAttr(t, &Attr{Path: "/bin/cat", Args: []string{"cat"}, CgroupFD: -1, Slots: slots, Room: n, OpenFiles: few})
			if room := roomOf(t, c.Pid()); room < n {
				t.Errorf("room for %d descriptors, want %d", room, n)
			}
		})
	}
}
