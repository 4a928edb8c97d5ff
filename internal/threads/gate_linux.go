package threads

import (
	"fmt"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
)

// A gate blocks goroutines in the kernel until it is open: they read from an empty pipe.
type gate struct{ ends [2]int }

func newGate() (*gate, error) {
	g := new(gate)
	if err := unix.Pipe2(g.ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	return g, nil
}

// wait returns when the gate is open. Go's monitor sees that the goroutine blocks in the kernel,
// and runs the others on another thread.
func (g *gate) wait() {
	syscalls.RetryInt(func() (int, error) { return unix.Read(g.ends[0], make([]byte, 1)) })
}

// open opens the gate permanently.
func (g *gate) open() { unix.Close(g.ends[1]) }

// close is called once no goroutine waits.
func (g *gate) close() { unix.Close(g.ends[0]) }
