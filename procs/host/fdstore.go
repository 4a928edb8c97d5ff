package host

import (
	"math"
	"strconv"

	"superd/pidfd"
)

// An FDStore outlives this superd and passes the stored descriptors to its successor. It is
// superd's keeper process, or systemd. Its methods are called on the loop and do not block.
type FDStore interface {
	// Store stores a duplicate of fd under name, a short decimal number, in place of what was
	// stored there. The duplicate is made before Store returns. It may be called from any
	// goroutine.
	Store(name string, fd int)
	// Discard removes what is stored under name.
	Discard(name string)
	// Forget closes this process's descriptor for name, so that it is not passed to a successor. It
	// sends nothing to the keeper.
	Forget(name string)
	// Acknowledge tells the keeper that the exit of a process is known and need not be reported
	// again.
	Acknowledge(pid int, start uint64)
}

// A StoredFDs is what the keeper passed to this superd. The supervisor owns the descriptors.
type StoredFDs struct {
	// What a socket unit of systemd has passed, by names in Files: the names that the unit gives
	Given map[string]string
	Files map[string]int // by the names under which they were stored
	Exits []StoredExit   // exits of processes that ended while no supervisor lived
}

// A StoredExit is the exit of a process that the keeper has reaped, since the superd that started
// it had ended.
type StoredExit struct {
	Pid   int
	Start uint64 // clock ticks since boot
	Exit  pidfd.Exit
}

// An FDName is the name of a stored descriptor, in 4 bytes: the number plus one; 0: none.
type FDName int32

// FDNameOf parses a name; it returns 0 for text that is no number.
func FDNameOf(name string) FDName {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || n == math.MaxInt32 {
		return 0
	}
	return FDName(n + 1)
}

// String returns the name; "" for none.
func (n FDName) String() string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n) - 1)
}
