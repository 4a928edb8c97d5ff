package procs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// What a superd needs of the kernel to hand over to another binary.

const (
	maxRunOutput = 64 << 10 // bytes of what Run returns
	holdPause    = 2 * time.Millisecond
)

// HoldForks lets no further fork begin and waits, for at most patience, until those under way are known to the loop; one whose exec hangs is
// left to itself. It is called off the loop. release has forks go on.
func (k *Kernel) HoldForks(patience time.Duration) (release func()) {
	g := &k.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held++
	for deadline := time.Now().Add(patience); g.forks+len(g.newborn) > 0 && time.Now().Before(deadline); {
		g.mu.Unlock()
		time.Sleep(holdPause)
		g.mu.Lock()
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.held--
		g.free.Broadcast()
	}
}

// Run runs a program that is none of the configuration's, in superd's environment, and returns what it has printed and how it ended. It
// blocks: it is called off the loop. After patience the program is killed.
func (k *Kernel) Run(patience time.Duration, path string, args ...string) (output []byte, exit pidfd.Exit, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, exit, fmt.Errorf("run %s: make a pipe: %w", path, err)
	}
	if err := unix.SetNonblock(pipe[0], true); err != nil { // its end alone
		return nil, exit, errors.Join(err, unix.Close(pipe[0]), unix.Close(pipe[1]))
	}
	r := os.NewFile(uintptr(pipe[0]), "output")
	defer r.Close()
	child, err := k.spawn(&pidfd.Attr{Path: path, Args: append([]string{path}, args...), Env: os.Environ(), Files: []int{k.null, pipe[1], pipe[1]}, CgroupFD: -1})
	unix.Close(pipe[1])
	if err != nil {
		return nil, exit, fmt.Errorf("run: %w", err)
	}
	defer k.known(child.Pid()) // until here a sweep leaves it alone
	defer child.Close()
	deadline := time.Now().Add(patience)
	if err := r.SetReadDeadline(deadline); err != nil {
		return nil, exit, err
	}
	output, readErr := io.ReadAll(io.LimitReader(r, maxRunOutput))
	if exit, ended, err := waitUntil(child, deadline); err != nil || ended && readErr == nil {
		return output, exit, err
	}
	if err := child.Signal(unix.SIGKILL); err != nil && !errors.Is(err, pidfd.ErrGone) {
		return output, exit, err
	}
	if _, _, err := waitUntil(child, time.Now().Add(patience)); err != nil {
		return output, exit, err
	}
	return output, exit, fmt.Errorf("run %s: not done within %v", path, patience)
}

// waitUntil waits for the end of a child.
func waitUntil(child *pidfd.Process, deadline time.Time) (pidfd.Exit, bool, error) {
	for {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child.FD()), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return pidfd.Exit{}, false, fmt.Errorf("wait for process %d: %w", child.Pid(), err)
		}
		if n == 0 {
			return pidfd.Exit{}, false, nil
		}
		return child.Wait()
	}
}
