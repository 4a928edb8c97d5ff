package procs

import "superd/pidfd"

// A Keeper is who outlives this superd and hands what it keeps to the next one: superd's keeper process, or systemd. Its methods are
// called on the loop and don't block.
type Keeper interface {
	// Store keeps a duplicate of fd under name, which is a short decimal number. The duplicate is made before Store returns. What
	// was kept under that name is let go of. It may be called from any goroutine.
	Store(name string, fd int)
	// Discard lets go of what is kept under name.
	Discard(name string)
	// Forget has nothing of what is kept under name given to the next supervisor by this one: its descriptor here is closed. The keeper is not told.
	Forget(name string)
	// Acknowledge tells that the exit of a process is known and need not be told again.
	Acknowledge(pid int, start uint64)
}

// An Inheritance is what came with this superd from its keeper. The supervisor owns the descriptors.
type Inheritance struct {
	Files map[string]int // by the names under which they were stored
	Exits []KeptExit     // of processes that ended while no superd lived
}

// A KeptExit is the end of a process that the keeper has reaped: of one that outlived the superd which started it.
type KeptExit struct {
	Pid   int
	Start uint64 // clock ticks since boot
	Exit  pidfd.Exit
}

// nobody keeps nothing.
type nobody struct{}

func (nobody) Store(string, int)       {}
func (nobody) Discard(string)          {}
func (nobody) Forget(string)           {}
func (nobody) Acknowledge(int, uint64) {}
