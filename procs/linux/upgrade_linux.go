package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// Limits of an upgrade to another binary.

const (
	maxRunOutput = 64 << 10 // of the bytes that Run returns
	pollPause    = 2 * time.Millisecond

	killedPatience = 200 * time.Millisecond // wait for the result of a start whose child was killed
)

// BlockForks blocks new forks and waits, for at most patience, until the loop knows the results of
// those under way. Then it kills children that still hang before their exec. It is called off the
// loop. release allows forks again.
func (k *Host) BlockForks(patience time.Duration) (release func()) {
	g := &k.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forkBlocks++
	await := func(patience time.Duration) bool {
		for deadline := time.Now().Add(patience); len(g.forking)+len(g.unannounced) > 0; {
			if time.Now().After(deadline) {
				return false
			}
			g.mu.Unlock()
			time.Sleep(pollPause)
			g.mu.Lock()
		}
		return true
	}
	if !await(patience) {
		for progress := range g.forking {
			progress.Kill()
		}
		await(killedPatience)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forkBlocks--
		g.free.Broadcast()
	}
}

// Run runs a program that is not in the configuration, in superd's environment. It returns its
// output, at most maxRunOutput bytes, and its exit. It blocks: it is called off the loop. After
// patience the program is killed.
func (k *Host) Run(patience time.Duration, path string, args ...string) (output []byte, exit pidfd.Exit, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, exit, fmt.Errorf("run %s: make a pipe: %w", path, err)
	}
	if err := unix.SetNonblock(pipe[0], true); err != nil { // only the read end
		return nil, exit, errors.Join(err, unix.Close(pipe[0]), unix.Close(pipe[1]))
	}
	r := os.NewFile(uintptr(pipe[0]), "output")
	defer r.Close()
	child, err := k.spawn(nil, &pidfd.Attr{Path: path, Args: append([]string{path}, args...), Env: os.Environ(), Files: []int{k.null, pipe[1], pipe[1]}, CgroupFD: -1})
	unix.Close(pipe[1])
	if err != nil {
		return nil, exit, fmt.Errorf("run: %w", err)
	}
	defer k.announced(child.Pid()) // until then ReapOrphans does not touch it
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

// waitUntil waits for the end of a child until deadline, and reports whether it has ended.
func waitUntil(child *pidfd.Process, deadline time.Time) (pidfd.Exit, bool, error) {
	for {
		remaining := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child.FD()), Events: unix.POLLIN}}, int(remaining.Milliseconds())+1)
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
