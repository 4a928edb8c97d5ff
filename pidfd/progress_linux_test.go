//go:build (amd64 || arm64 || riscv64) && !superd_forkexec

package pidfd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd/vfork"
)

// leased returns the path of a copy of /bin/true whose exec hangs until release is called, or for
// 45 s. See fcntl(2), F_SETLEASE.
func leased(t *testing.T) (path string, release func()) {
	t.Helper()
	if vfork.RaceDetector {
		t.Skip("under the race detector a fork keeps its processor")
	}
	text, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip(err)
	}
	path = filepath.Join(t.TempDir(), "true")
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip(err)
	}
	return path, func() {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Error(err)
		}
	}
}

// awaitPid waits until the child has run.
func awaitPid(t *testing.T, b *Progress) int {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); b.Pid() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the child has no pid after 10 s")
		}
	}
	return b.Pid()
}

// TestProgressKill: whatever delays a child before its exec, its pid is known, Kill ends it, and
// Spawn reports that.
func TestProgressKill(t *testing.T) {
	forks := map[string]func(*testing.T) int{"by fork": func(*testing.T) int { return -1 }, "into a cgroup": ownCgroup}
	for name, cgroup := range forks {
		t.Run(name, func(t *testing.T) {
			path, _ := leased(t)
			attr := &Attr{Path: path, Args: []string{"true"}, CgroupFD: cgroup(t), Progress: new(Progress)}
			failed := make(chan error)
			go func() {
				_, err := Spawn(attr)
				failed <- err
			}()
			pid := awaitPid(t, attr.Progress)
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Errorf("stop the child: %v", err)
			}
			if !attr.Progress.Kill() {
				t.Error("Kill() = false, want the child to be killed")
			}
			if err := <-failed; !errors.Is(err, ErrKilled) {
				t.Errorf("Spawn() = %v, want %v", err, ErrKilled)
			}
			if err := unix.Kill(pid, 0); err != unix.ESRCH {
				t.Errorf("the child is still there: %v", err)
			}
			if attr.Progress.Kill() {
				t.Error("Kill() after Spawn has returned = true")
			}
		})
	}
}

// TestProgressAfterExec: a child that has executed its program is not killed, though Spawn may not
// have returned yet.
func TestProgressAfterExec(t *testing.T) {
	c := spawn(t, "read x")
	b := &Progress{pid: int32(c.Pid()), pidFD: int32(c.FD())} // as just before Spawn returns
	if b.Kill() {
		t.Error("Kill() = true, want false for a child that runs its program")
	}
}

// TestSlotsOfAHungChild: a child that hangs in its exec blocks no slots.
func TestSlotsOfAHungChild(t *testing.T) {
	s, err := ReserveSlots(-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.end == 0 {
		t.Skip("no close_range")
	}
	path, release := leased(t)
	failed := make(chan error)
	hung := &Attr{Path: path, Args: []string{"true"}, CgroupFD: -1, Slots: s, Progress: new(Progress)}
	r, w := pipe(t)
	hung.Files = []int{-1, int(w.Fd())}
	go func() {
		c, err := Spawn(hung)
		if err == nil {
			err = waitid(unix.P_PIDFD, c.FD(), unix.WEXITED)
			c.Close()
		}
		failed <- err
	}()
	awaitPid(t, hung.Progress)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		f := newCloneSpec()
		s.assign(f)
		got := f.set != nil
		s.releaseSet(f)
		if got {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a child that hangs still has the only set of slots")
		}
	}
	c := spawnAttr(t, &Attr{Path: "/bin/sh", Args: []string{"sh", "-c", "echo ready"}, CgroupFD: -1, Slots: s})
	if got := c.line(t); got != "ready" {
		t.Errorf("the next child says %q", got)
	}
	mustExit(t, c.Process)
	release()
	if err := <-failed; err != nil {
		t.Error(err)
	}
	w.Close()
	r.Close()
	if len(s.free) != 1 || len(s.busy) != 0 {
		t.Errorf("%d sets of slots are free and %d in use, want 1 and 0", len(s.free), len(s.busy))
	}
}

// TestSpawnDelaysNoOther lets more children wait in their execs than Go has processors, while the
// runtime collects garbage. The executable is leased: an exec waits until the lease is released, or
// for 45 s. See fcntl(2), F_SETLEASE.
func TestSpawnDelaysNoOther(t *testing.T) {
	path, release := leased(t)
	all := runtime.GOMAXPROCS(0) + 1
	var executed atomic.Int32
	ended := make(chan error, all)
	for range all {
		go func() {
			c, err := Spawn(&Attr{Path: path, Args: []string{"true"}, CgroupFD: -1})
			executed.Add(1)
			if err == nil {
				err = waitid(unix.P_PIDFD, c.FD(), unix.WEXITED)
				c.Close()
			}
			ended <- err
		}()
	}
	for threads("D") < all && executed.Load() == 0 {
		runtime.Gosched()
	}
	runtime.GC()
	if n := executed.Load(); n > 0 {
		t.Errorf("%d children have executed before a garbage collection was done", n)
	}
	release()
	for range all {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// threads returns the number of this process's threads in that state.
func threads(state string) (n int) {
	stats, _ := filepath.Glob("/proc/self/task/*/stat")
	for _, path := range stats {
		if line, _ := os.ReadFile(path); bytes.Contains(line, []byte(") "+state+" ")) {
			n++
		}
	}
	return n
}

func TestSpawnWithRoom(t *testing.T) {
	slots, err := ReserveSlots(-1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer slots.Close()
	few := &unix.Rlimit{Cur: 64, Max: 1024} // limit of the program: its table may be larger
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
