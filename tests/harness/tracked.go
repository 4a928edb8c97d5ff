package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A Tracked is a process that the test follows by a pidfd, also when its pid is reused or when
// nothing in it shows its origin.
type Tracked struct {
	Pid     int
	process *os.Process // by pidfd
}

// Track follows a process. If it is alive when superd has ended, the test fails.
func (s *Site) Track(pid int) *Tracked {
	s.T.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		s.T.Fatalf("track process %d: %v", pid, err)
	}
	h := &Tracked{pid, p}
	s.tracked = append(s.tracked, h)
	return h
}

// Alive reports whether the process exists and is not a zombie.
func (h *Tracked) Alive() bool {
	return h.process.Signal(syscall.Signal(0)) == nil && Alive(h.Pid)
}

// Stop stops the process and reports whether it still existed. When Stop returns, none of its
// threads runs any more.
func (h *Tracked) Stop(t testing.TB) bool {
	t.Helper()
	if h.process.Signal(syscall.SIGSTOP) != nil {
		return false
	}
	Until(t, "all threads have stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", h.Pid))
		return !h.Alive() || !slices.ContainsFunc(threads, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	})
	return true
}

// Kill kills the process.
func (h *Tracked) Kill() { h.process.Kill() }

// Zombies returns the children of a process that have ended and were not reaped.
func (s *Site) Zombies(parent int) []int {
	s.T.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.T.Fatal(err)
	}
	var found []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		state, _ := stat(pid, 0)
		if ppid, err := stat(pid, 1); err == nil && state == "Z" && ppid == strconv.Itoa(parent) {
			found = append(found, pid)
		}
	}
	return found
}
