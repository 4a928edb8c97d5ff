package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/internal/workers"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/proctree"
)

// A Tree is the [host.Tree] of an instance that has a cgroup: every process starts there and
// can't leave it.
type Tree struct {
	pending  workers.Job // kills and removals
	manager  *Manager
	instance string
	base     string // parent of its directory
	found    bool   // a predecessor created the directory
	// cgroup.kill was used: no process may be started in this directory any more; guarded by mu
	killed bool
	used   bool // an instance has it; guarded by trees.mu

	mayExist atomic.Bool   // the directory may exist
	spawns   atomic.Uint64 // number of spawns begun or completed in it
	emptyAt  atomic.Uint64 // spawns+1 when it was last seen empty
	oomKills atomic.Int64  // counted by earlier directories

	// Processes that were started while no cgroup could be made; nil: none.
	scan atomic.Pointer[proctree.Tree]

	mu      sync.Mutex
	written active // active limits; nil: none, or those of a predecessor
	scanned bool   // the last prepared spawn belongs to scan
}

// NewTree returns the tree of the instance. dir is its directory if a predecessor created it; empty
// otherwise.
func (c *Manager) NewTree(instance, dir string) *Tree {
	t := c.trees.use(instance)
	if t == nil || t.isElsewhere() && dir == "" {
		t = &Tree{manager: c, instance: instance, base: c.base}
		c.trees.add(t)
		t.readInherited(dir)
	}
	return t
}

func (t *Tree) dir() string { return t.base + "/" + t.name() }

func (t *Tree) name() string { return instancePrefix + t.instance }

// isElsewhere reports whether its directory is not where superd would create it now. Then its path
// in /proc/PID/cgroup is unknown.
func (t *Tree) isElsewhere() bool { return t.base != t.manager.base }

// readInherited checks whether a predecessor has created the directory.
func (t *Tree) readInherited(dir string) {
	if dir == "" && t.manager.newBase {
		return
	}
	if base := filepath.Dir(dir); dir != "" && base != t.base && filepath.Base(dir) == t.name() && isCgroup(dir) {
		t.base = base
		if !slices.Contains(t.manager.bases, base) {
			t.manager.bases = append(t.manager.bases, base)
		}
	}
	if t.existed() {
		t.mayExist.Store(true)
		t.found = true
	}
}

func (t *Tree) existed() bool {
	if inherited := t.manager.inherited; inherited != nil && !t.isElsewhere() {
		_, ok := inherited[t.name()]
		return ok
	}
	_, err := os.Stat(t.dir())
	return err == nil
}

// Path implements [host.Tree].
func (t *Tree) Path() string {
	if t.scanTree() != nil {
		return host.ScanPath
	}
	return t.dir()
}

// scanTree returns the tree of processes that were started while no cgroup could be made; nil if
// none of them lives.
func (t *Tree) scanTree() *proctree.Tree {
	if scan := t.scan.Load(); scan != nil && !scan.Empty() {
		return scan
	}
	return nil
}

// Lack implements [host.Tree].
func (t *Tree) Lack() string {
	if t.scanTree() == nil {
		return ""
	}
	l := &t.manager.failure
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.why, "none could be made at its start")
}

// Adopt adopts a predecessor's processes, and sets limits anew that the cgroup may lack. It is
// called off the loop.
func (t *Tree) Adopt(a *host.RecoveredProcess) error {
	// superd was killed before it recorded that there is no cgroup
	if a.Found != nil && !a.Ended && !t.Has(a.Process.Pid) {
		scan := t.manager.options.Scan.NewTree(t.instance, true)
		t.scan.Store(scan)
		return scan.Adopt(a)
	}
	limits := &a.Program.Limits
	if !t.mayExist.Load() || len(limitsIn(limits)) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limitsIn(limits) {
		if err := t.manager.enable(l.controller); err != nil {
			return limitsError(l.limit, l.controller, err)
		}
	}
	return t.limit(limits)
}

// Empty implements [host.Tree]. The answer is cached until the next spawn.
func (t *Tree) Empty() bool { return t.scanTree() == nil && t.isEmpty() }

// isEmpty reports whether no process lives in the cgroup.
func (t *Tree) isEmpty() bool {
	spawns := t.spawns.Load() + 1 // read before the check
	if !t.mayExist.Load() || t.emptyAt.Load() == spawns {
		return true
	}
	if t.isElsewhere() || !t.manager.allEmpty() {
		if t.populated() {
			return false
		}
	}
	t.emptyAt.Store(spawns)
	return true
}

// noteSpawn counts a spawn that is about to happen in the tree, or just did.
func (t *Tree) noteSpawn() {
	t.spawns.Add(1)
	t.manager.spawns.Add(1)
}

func (t *Tree) populated() bool {
	lives := true
	// After an error, processes may live there.
	_ = t.manager.reserve.use(func() (err error) {
		lives, err = populated(t.dir())
		return err
	})
	return lives
}

// OOMKills implements [host.Tree].
func (t *Tree) OOMKills() int {
	if !t.mayExist.Load() {
		return int(t.oomKills.Load())
	}
	return int(t.oomKills.Load() + t.countOOMKills())
}

// countOOMKills reads the count of the present directory, 0 without the memory controller.
//
// Source: memory.events in Documentation/admin-guide/cgroup-v2.rst.
func (t *Tree) countOOMKills() int64 {
	if !t.manager.countsOOMKills.Load() && !t.isElsewhere() {
		return 0
	}
	var buf [512]byte
	n, err := procfs.ReadSmall(t.dir()+"/memory.events", buf[:])
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(buf[:n])) {
		if text, ok := strings.CutPrefix(line, "oom_kill "); ok {
			count, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			return count
		}
	}
	return 0
}

// lookPause is the longest pause between two looks that found no process although the cgroup is
// populated.
const lookPause = 50 * time.Millisecond

// Look implements [host.Tree].
func (t *Tree) Look(found func([]host.Member)) {
	scan := t.scanTree()
	if scan == nil {
		t.look(found)
		return
	}
	t.look(func(members []host.Member) {
		scan.Look(func(others []host.Member) { found(append(members, others...)) })
	})
}

// look is Look for the processes in the cgroup.
func (t *Tree) look(found func([]host.Member)) {
	if t.isEmpty() {
		found(nil)
		return
	}
	c := t.manager
	go func() {
		for pause := time.Millisecond; ; pause = min(2*pause, lookPause) {
			c.readers <- struct{}{}
			members, err := t.members()
			<-c.readers
			// A listed process may end before it is opened, and leave a child that is not listed.
			if len(members) > 0 || err == nil && !t.populated() {
				c.options.Post(func() { found(members) })
				return
			}
			time.Sleep(pause)
		}
	}()
}

// members opens the processes in the cgroup.
func (t *Tree) members() ([]host.Member, error) {
	var members []host.Member
	limit := proctree.MemberLimit()
	for _, pid := range pidsIn(t.dir()) {
		if len(members) == limit {
			break
		}
		s, err := procfs.ReadStat(pid)
		if err != nil || s.Dead {
			continue
		}
		p, err := procfs.OpenProcess(&s)
		switch {
		case errors.Is(err, pidfd.ErrGone):
		case err != nil && len(members) > 0:
			return members, nil
		case err != nil:
			return nil, err
		case !t.contains(pid):
			p.Close() // the pid was reused since it was listed
		default:
			members = append(members, host.Member{Process: p, Start: s.Start, Group: s.Group, Parent: s.Parent, Command: s.Command})
		}
	}
	return members, nil
}

// contains reports whether the process with this pid is in the cgroup or its descendants.
func (t *Tree) contains(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	if t.isElsewhere() {
		return slices.Contains(pidsIn(t.dir()), pid)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "0::"+path.Join(t.manager.path, t.name())); ok {
			return rest == "\n" || strings.HasPrefix(rest, "/")
		}
	}
	return false
}

// Has implements [host.Tree].
func (t *Tree) Has(pid int) bool {
	scan := t.scanTree()
	return t.mayExist.Load() && t.contains(pid) || scan != nil && scan.Has(pid)
}

// Kill implements [host.Tree]. It returns before the signal is sent.
func (t *Tree) Kill() error {
	if scan := t.scanTree(); scan != nil {
		if err := scan.Kill(); err != nil {
			return err
		}
	}
	if t.mayExist.Load() {
		t.pending.Begin(&t.manager.kills, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.killed = true
			err := t.manager.reserve.use(func() error { return writeFile(t.dir()+"/cgroup.kill", "1") })
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				err = t.killEach()
			}
			if err != nil {
				t.manager.log.Error("process tree not killed at once", "cgroup", t.dir(), "error", err)
			}
		})
	}
	return nil
}

// killRounds bounds how often killEach lists the remaining processes.
const killRounds = 100

// killEach is Kill for kernels before 5.14, which have no cgroup.kill. Frozen processes can't fork
// meanwhile, but die of SIGKILL.
func (t *Tree) killEach() error {
	freeze := t.dir() + "/cgroup.freeze"
	err := writeFile(freeze, "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the cgroup is gone, or the kernel is older than 5.2
	}
	for range killRounds {
		members, openErr := t.members()
		for _, m := range members {
			m.Process.Signal(unix.SIGKILL)
			m.Process.Close()
		}
		if len(members) == 0 && openErr == nil && !t.populated() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return errors.Join(err, writeFile(freeze, "0"))
}

// Remove implements [host.Tree].
func (t *Tree) Remove() {
	if scan := t.scan.Swap(nil); scan != nil {
		scan.Remove()
	}
	t.manager.trees.release(t)
	if !t.mayExist.Load() {
		return
	}
	t.pending.Begin(&t.manager.removals, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err := t.discard(); err != nil {
			t.manager.log.Warn("cgroup not removed: does it have processes?", "error", err)
		}
		t.manager.trees.drop(t)
	})
}

// discard removes the directory. The caller holds t.mu.
func (t *Tree) discard() error {
	kills := t.countOOMKills()
	if err := removeCgroup(t.dir(), removePatience); err != nil {
		return err
	}
	t.oomKills.Add(kills)
	t.mayExist.Store(false)
	t.written, t.killed, t.found = nil, false, false
	return nil
}

// PrepareSpawn prepares the tree for a new process and sets the limits. It returns the descriptor
// of the directory for [pidfd.Attr], which the caller closes; -1: there is no cgroup. It is called
// off the loop.
//
// After cgroup.kill the directory is created anew. Since 6.14, the kernel kills a process that is
// forked while its cgroup is killed: it compares the number of kills before and after the fork. For
// a fork into another cgroup than the parent's, it takes the first number from the parent's cgroup.
// So once a cgroup was killed, each process forked into it dies at once.
//
// Source: cgroup_css_set_fork and cgroup_post_fork in kernel/cgroup/cgroup.c.
func (t *Tree) PrepareSpawn(limits *config.Limits) (int, error) {
	t.noteSpawn()
	t.pending.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limitsIn(limits) {
		if err := t.manager.enable(l.controller); err != nil {
			return -1, limitsError(l.limit, l.controller, err)
		}
	}
	if t.killed || t.found && !t.populated() { // it may have been killed
		if err := t.discard(); err != nil {
			return -1, &host.SpawnError{Stage: "remove cgroup of the previous run", Path: t.dir(), Err: cause(err), Fault: host.FaultResource}
		}
	}
	t.scanned = false
	fd, err := -1, error(unix.ENOENT)
	if t.mayExist.Load() { // created by the run before
		fd, err = openCgroup(t.dir())
	}
	if err == unix.ENOENT {
		if err := t.make(); err != nil {
			why := t.manager.explain(t.dir(), cause(err))
			t.manager.failure.set(t.manager.log, fmt.Errorf("make cgroup %s: %w", t.dir(), why))
			if len(limitsIn(limits)) > 0 {
				return -1, &host.SpawnError{Stage: "make cgroup", Path: t.dir(), Err: why, Fault: host.FaultOf(err)}
			}
			return t.prepareScanned(limits)
		}
		t.manager.failure.clear(t.manager.log)
		fd, err = openCgroup(t.dir())
	}
	if err != nil {
		return -1, &host.SpawnError{Stage: "open cgroup", Path: t.dir(), Err: err, Fault: host.FaultOf(err)}
	}
	if err := t.limit(limits); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// make creates the directory. The caller holds t.mu.
func (t *Tree) make() error {
	if err := t.manager.ready(); err != nil {
		return err
	}
	switch err := os.Mkdir(t.dir(), 0o755); {
	case err == nil:
		t.written, t.found = nil, false
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	t.mayExist.Store(true)
	return nil
}

// prepareScanned is PrepareSpawn while no cgroup can be made. The caller holds t.mu.
func (t *Tree) prepareScanned(limits *config.Limits) (int, error) {
	scan := t.scan.Load()
	if scan == nil {
		scan = t.manager.options.Scan.NewTree(t.instance, false)
		t.scan.Store(scan)
	}
	t.scanned = true
	return scan.PrepareSpawn(limits)
}

// RegisterSpawned registers a new main process or hook that is in no cgroup. It is called off the
// loop.
func (t *Tree) RegisterSpawned(id pidfd.Identity, fifos []int) {
	t.noteSpawn()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scanned {
		t.scan.Load().RegisterSpawned(id, fifos)
	}
}

// MakeRoom removes what prevents a fork into the tree, and reports whether to try again. A program
// may divide its cgroup as superd does, and end without cleaning up. Then no process can be started
// there, as the cgroup passes controllers on.
func (t *Tree) MakeRoom(cause error) bool {
	if !errors.Is(cause, unix.EBUSY) || t.populated() {
		return false
	}
	for _, nested := range cgroupsIn(t.dir()) {
		removeCgroup(nested, removePatience)
	}
	control := filepath.Join(t.dir(), "cgroup.subtree_control")
	text, err := os.ReadFile(control)
	if err != nil {
		return false
	}
	for controller := range strings.FieldsSeq(string(text)) {
		if err := writeFile(control, "-"+controller); err != nil {
			return false
		}
	}
	return true
}

// limit sets the limits. The caller holds t.mu.
func (t *Tree) limit(limits *config.Limits) (err error) {
	t.written, err = writeLimits(t.dir(), limits, t.written, t.found)
	return err
}
