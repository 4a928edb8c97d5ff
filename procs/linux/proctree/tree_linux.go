package proctree

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"superd/config"
	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

// Path implements [host.Tree].
func (t *Tree) Path() string { return host.ScanPath }

// Lack implements [host.Tree]. It is empty, as superd has no cgroups at all.
func (t *Tree) Lack() string { return "" }

// Adopt adopts a predecessor's processes. It is called off the loop.
func (t *Tree) Adopt(a *host.RecoveredProcess) error {
	var fifos []string
	for _, o := range a.Outputs {
		fifo := o.FIFO
		if path := fifoPath(o.ReadFD); path != "" {
			fifo = path
		}
		fifos = append(fifos, fifo)
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	t.setFIFOs(fifos)
	c.outsidersStale = c.outsidersStale || t.foreign
	if a.Found != nil {
		t.addRoot(host.ProcessKey{Pid: a.Process.Pid, Start: a.Process.Start})
	}
	return nil
}

// Empty implements [host.Tree].
func (t *Tree) Empty() bool {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	return !t.mayHaveProcesses
}

// OOMKills implements [host.Tree]. The kernel counts only for cgroups.
func (t *Tree) OOMKills() int { return 0 }

// Look implements [host.Tree].
func (t *Tree) Look(found func([]host.Member)) {
	if t.Empty() {
		found(nil)
		return
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memberRequests = append(c.memberRequests, &memberRequest{tree: t, done: found, spawns: t.spawns})
	c.request()
}

// Has implements [host.Tree], by ancestors, session and group only. Reading environments could take
// long.
func (t *Tree) Has(pid int) bool {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	youngest := uint64(math.MaxUint64)
	for range procfs.MaxAncestors {
		s, err := procfs.ReadStat(pid)
		if err != nil || s.Start > youngest || pid == c.self {
			return false
		}
		if owner := c.roots[keyOf(&s)]; owner != nil {
			return owner == t
		}
		if c.orphans[keyOf(&s)] == t || t.hasNumber(&s) {
			return true
		}
		pid, youngest = s.Parent, s.Start
	}
	return false
}

// hasNumber reports whether the session or group of s is that of a root of the tree.
// The caller holds c.mu.
func (t *Tree) hasNumber(s *procfs.Stat) bool {
	return slices.ContainsFunc(t.roots, func(id host.ProcessKey) bool {
		if id.Pid != s.Session && id.Pid != s.Group || id.Start > s.Start {
			return false
		}
		now, err := procfs.ReadStat(id.Pid)
		return err != nil || keyOf(&now) == id // if the pid was reused, so were session and group
	})
}

// Kill implements [host.Tree]. For at most [host.KillPause], scans send SIGKILL to all processes
// that they find: to an orphan when it is visited, since it may fork and exit before the scan is
// over, to others at the end of the scan.
func (t *Tree) Kill() error {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.mayHaveProcesses {
		if !t.killing {
			t.killing, t.killed, t.emptyScan = true, map[host.ProcessKey]bool{}, nil
		}
		t.killUntil = time.Now().Add(host.KillPause)
		c.request()
	}
	return nil
}

// Remove implements [host.Tree].
func (t *Tree) Remove() {
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees[t.instance] == t {
		delete(c.trees, t.instance)
	}
	maps.DeleteFunc(c.orphans, func(_ host.ProcessKey, other *Tree) bool { return other == t })
	t.setEmpty()
	t.killing = false
	c.changed.Broadcast()
}

// PrepareSpawn prepares the tree for a new process, or refuses limits. The descriptor is -1: there
// is no cgroup. It is called off the loop.
func (t *Tree) PrepareSpawn(limits *config.Limits) (int, error) {
	c := t.scanner
	if err := c.options.Refuse(limits); err != nil {
		return -1, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.killUntil = time.Time{}
	for t.killing {
		c.changed.Wait() // the kill must not hit the new process
	}
	t.spawns++
	t.unregistered++
	if !t.mayHaveProcesses {
		t.mayHaveProcesses, t.since, t.unregistered = true, procfs.BootTicks(), 1
	}
	return -1, nil
}

// RegisterSpawned registers a new main process or hook, and the FIFOs that are its output. It is
// called off the loop.
func (t *Tree) RegisterSpawned(id pidfd.Identity, outputs []int) {
	var fifos []string
	for _, fd := range outputs {
		fifos = append(fifos, fifoPath(fd))
	}
	c := t.scanner
	c.mu.Lock()
	defer c.mu.Unlock()
	t.setFIFOs(fifos)
	t.unregistered--
	if !t.mayHaveProcesses { // setEmpty was called between PrepareSpawn and the fork
		t.mayHaveProcesses, t.since, t.unregistered = true, id.Start, 0
	}
	t.addRoot(host.ProcessKey{Pid: id.Pid, Start: id.Start})
}

// setFIFOs sets the paths of the outputs. Most are scanner.fifoDir and the instance's name: such a
// path is not stored, as a small string of each program that lives long keeps pages from being
// returned to the system. The caller holds c.mu.
func (t *Tree) setFIFOs(paths []string) {
	t.hasPlainFIFO, t.fifos = false, nil
	for _, fifo := range paths {
		dir, name := filepath.Split(fifo)
		if t.scanner.fifoDir == "" {
			t.scanner.fifoDir = strings.Clone(dir)
		}
		if name == t.instance && dir == t.scanner.fifoDir {
			t.hasPlainFIFO = true
		} else if fifo != "" {
			t.fifos = append(t.fifos, fifo)
		}
	}
}

// AddMain registers another main process, which was in the tree already.
func (t *Tree) AddMain(id pidfd.Identity) {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	t.addRoot(host.ProcessKey{Pid: id.Pid, Start: id.Start})
}

// MakeRoom does nothing: a tree without a cgroup prevents no fork.
func (t *Tree) MakeRoom(error) bool { return false }

// fifoPath returns the path that /proc shows for the FIFO open as fd; empty if there is none.
func fifoPath(fd int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !strings.HasPrefix(target, "/") {
		return ""
	}
	return target
}
