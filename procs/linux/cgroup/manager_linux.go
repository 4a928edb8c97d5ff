// Package cgroup has the process trees of instances that have a cgroup v2 of their own.
//
// A [Manager] owns the directory of these cgroups, a [Tree] is one of them. Operations that may
// wait for a lock of the kernel run off the loop. While no cgroup can be made, a tree has one of
// superd/procs/linux/proctree. A [Unit] is the cgroup of superd's systemd unit.
package cgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"superd/internal/mounts"
	"superd/internal/workers"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/proctree"
)

// Names of directories. Those of instances have a prefix, as the kernel's files are in the same
// directory: a program may be called memory.max.
const (
	basePrefix     = "superd-"
	instancePrefix = "program-"
	leafName       = "supervisor"
	probeName      = "probe"
)

// A Manager has a directory in the cgroup v2 hierarchy, below superd's own cgroup, with a cgroup
// for each instance. Its operations may wait for a lock of the kernel, so they run off the loop.
//
// A cgroup that passes controllers on to its child cgroups must not hold processes itself, the root
// excepted, and superd's own cgroup holds superd. So superd moves into a cgroup "supervisor" beside
// those of the programs, but only when a program has a limit that needs a controller. Without
// limits nothing moves, and a systemd that restarts superd while programs live finds its cgroup
// unchanged. Source: Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint".
type Manager struct {
	options         Options
	reserve         *reserve
	log             *slog.Logger
	readers         chan struct{} // semaphore of lookSlots
	own             string        // directory of superd's cgroup, without the leaf it may be in
	base            string        // directory in own
	path            string        // of base, as in /proc/PID/cgroup
	kills, removals workers.Pool
	trees           treesByInstance
	bases           []string    // base directories of predecessors that were in other cgroups
	countsOOMKills  atomic.Bool // instances have the memory controller, which counts OOM kills
	newBase         bool        // this superd created base
	// names that a predecessor has created in base; nil: they are unknown
	inherited map[string]struct{}
	spawns    atomic.Uint64 // number of spawns begun or completed, in all trees
	seen      seen          // loop only

	failure creationFailure // why no cgroup can be made at present

	mu           sync.Mutex
	unready      bool            // base, or the probe in it, could not be made yet
	enabled      map[string]bool // controllers that instances have
	enabledInOwn []string        // controllers that superd has enabled in its own cgroup
	leaf         string          // leaf that superd has moved to; empty: it has not
}

// Options are what a [Manager] needs of the host.
type Options struct {
	RuntimeDir string
	Keeper     int // pid of superd's keeper; 0: none
	Log        *slog.Logger
	Post       func(func()) // runs a function on the loop

	// Spawn forks and executes as [pidfd.Spawn]. reaped is called when the child is reaped.
	Spawn func(*pidfd.Attr) (child *pidfd.Process, reaped func(), err error)
	// Scan finds processes that were started while no cgroup could be made.
	Scan *proctree.Scanner
}

// How many trees are looked at, killed and removed in parallel. A removal may have to wait.
const (
	lookSlots   = 2
	killSlots   = 2
	removeSlots = 2
)

// Threads is how many threads a [Manager] may block in the kernel.
const Threads = lookSlots + killSlots + removeSlots

// Open finds superd's cgroup and creates the base directory in it. A predecessor may have created
// one, in which processes may live. The error says why superd can't have cgroups.
func Open(o Options) (*Manager, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir, cgroup, err := findCgroup(string(mountinfo), string(membership))
	if err != nil {
		return nil, err
	}
	if cgroup != "/" && (path.Base(cgroup) == leafName || !isDelegated(dir) && isDelegated(filepath.Dir(dir))) {
		// Superd is in a leaf already: a predecessor of an upgrade has moved there, or systemd has
		// started it there (DelegateSubgroup=).
		dir, cgroup = filepath.Dir(dir), path.Dir(cgroup)
	}
	// The name depends on the runtime directory only: it is unique to this superd, and a successor
	// finds the directory.
	sum := sha256.Sum256([]byte(o.RuntimeDir))
	name := basePrefix + hex.EncodeToString(sum[:6])
	c := &Manager{options: o, reserve: newReserve(), log: o.Log, readers: make(chan struct{}, lookSlots), own: dir, base: filepath.Join(dir, name), path: path.Join(cgroup, name),
		enabled: map[string]bool{},
		kills:   workers.Pool{Limit: killSlots}, removals: workers.Pool{Limit: removeSlots}}
	err = os.Mkdir(c.base, 0o755)
	existed := errors.Is(err, fs.ErrExist)
	c.newBase = !existed
	switch {
	case existed:
		c.readInherited()
		err = c.probe()
	case err == nil:
		err = c.probe()
	default:
		err = fmt.Errorf("make cgroup: %w", err)
	}
	switch {
	case err == nil:
	case host.FaultOf(err) == host.FaultResource: // temporary
		c.unready = !existed // otherwise a predecessor has proved that it works
		c.failure.set(c.log, c.explain(filepath.Join(c.base, probeName), err))
	case existed: // base may be in use
		c.reserve.close()
		return nil, err
	default:
		c.Close()
		return nil, err
	}
	return c, nil
}

// Try finds out whether superd can have cgroups here, as at its start, and why controllers
// that limits need are missing. It leaves the cgroup as it was.
func Try() (missing map[string]error, err error) {
	name := fmt.Sprintf("try %d", os.Getpid()) // unique, as runtime directories are absolute paths
	c, err := Open(Options{
		RuntimeDir: name,
		Log:        slog.New(slog.DiscardHandler),
		Spawn: func(attr *pidfd.Attr) (*pidfd.Process, func(), error) {
			child, err := pidfd.Spawn(attr)
			return child, func() {}, err
		},
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if why := c.failure.current(); why != "" {
		return nil, errors.New(why)
	}
	missing = map[string]error{}
	for _, controller := range []string{"memory", "cpu", "pids", "io"} {
		if !hasWord(filepath.Join(c.own, "cgroup.controllers"), controller) {
			missing[controller] = errors.New(c.whyMissing(controller))
		}
	}
	return missing, nil
}

// A seen caches whether no process lives in any of the cgroups, for a count of spawns.
type seen struct {
	spawns uint64
	calls  int // calls of allEmpty since then
	empty  bool
}

// allEmptyPeriod is how many checks of one cgroup lead to a check of base.
const allEmptyPeriod = 16

// allEmpty reports whether no process lives in any cgroup in base, as far as it knows. That saves
// reading a thousand cgroups at a shutdown. It reads base once in allEmptyPeriod calls without a
// spawn in between. It is called on the loop.
func (c *Manager) allEmpty() bool {
	if spawns := c.spawns.Load(); spawns != c.seen.spawns { // read before the check
		c.seen = seen{spawns: spawns}
	}
	if c.seen.empty {
		return true
	}
	if c.seen.calls++; c.seen.calls%allEmptyPeriod != 0 {
		return false
	}
	lives, err := populated(c.base)
	c.seen.empty = err == nil && !lives
	return c.seen.empty
}

// findCgroup returns the directory of superd's cgroup v2 and its path in the hierarchy, from the
// texts of /proc/self/mountinfo and /proc/self/cgroup. A v1 hierarchy may exist beside it, with v2
// mounted as /sys/fs/cgroup/unified.
//
// Source: cgroups(7).
func findCgroup(mountinfo, membership string) (dir, cgroup string, err error) {
	for line := range strings.Lines(membership) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			cgroup = strings.TrimSuffix(rest, "\n")
		}
	}
	switch {
	case cgroup == "":
		return "", "", errors.New("this machine has no cgroup v2")
	case cgroup == "/.." || strings.HasPrefix(cgroup, "/../"):
		return "", "", fmt.Errorf("superd's cgroup %s is outside of its cgroup namespace", cgroup)
	}
	mounted := false
	for m := range mounts.Parse(mountinfo) {
		if m.Type != "cgroup2" {
			continue
		}
		mounted = true
		below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(m.Root, "/"))
		if ok && (below == "" || below[0] == '/') && !slices.Contains(strings.Split(m.Options, ","), "ro") {
			return filepath.Join(m.Point, below), cgroup, nil
		}
	}
	if !mounted {
		return "", "", errors.New("cgroup v2 is not mounted")
	}
	return "", "", fmt.Errorf("no writable mount of cgroup v2 shows superd's cgroup %s", cgroup)
}

// isDelegated reports whether systemd has delegated the cgroup. Source: systemd's
// CGROUP_DELEGATION.md.
func isDelegated(dir string) bool {
	var value [1]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Lgetxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// readInherited reads what a predecessor has changed in the cgroup that it was in.
func (c *Manager) readInherited() {
	if entries, err := os.ReadDir(c.base); err == nil { // one read for all trees
		c.inherited = make(map[string]struct{}, len(entries))
		for _, entry := range entries {
			c.inherited[entry.Name()] = struct{}{}
		}
	}
	c.countsOOMKills.Store(hasWord(filepath.Join(c.base, "cgroup.subtree_control"), "memory"))
	leaf := filepath.Join(c.own, leafName)
	if _, err := os.Stat(leaf); err != nil || isDelegated(c.own) {
		return // the predecessor has not moved, so it enabled nothing, or systemd created the leaf
	}
	c.leaf = leaf
	if err := c.enter(leaf); err != nil {
		c.log.Warn("superd not moved into the cgroup of its predecessor", "cgroup", leaf, "error", err)
	}
	if text, err := os.ReadFile(filepath.Join(c.own, "cgroup.subtree_control")); err == nil {
		c.enabledInOwn = strings.Fields(string(text))
	}
}

// Adopted records that all trees of a predecessor exist: a tree that is added later reads its own
// state.
func (c *Manager) Adopted() { c.inherited = nil }

// probe checks whether a process can be started in a cgroup. The kernel's version does not
// suffice: permissions and filters of system calls (seccomp) matter, too.
func (c *Manager) probe() error {
	dir := filepath.Join(c.base, probeName)
	// it exists if a superd was killed here
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	fd, err := openCgroup(dir)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	for {
		// The empty path does not exist: an exec that fails with ENOENT proves that the fork
		// worked.
		child, reaped, err := c.options.Spawn(&pidfd.Attr{CgroupFD: fd})
		switch {
		case errors.Is(err, unix.ENOENT):
			removeCgroup(dir, removePatience) // if that fails, it is removed with base
			return nil
		case err != nil:
			return fmt.Errorf("start a process in cgroup %s: %w", c.path, err)
		}
		// The child was killed before the exec, as superd's own cgroup has been killed before (see
		// Tree.PrepareSpawn). A new cgroup has not.
		exit, err := child.Await()
		child.Close()
		reaped()
		if err == nil && c.leaf == "" && path.Dir(c.path) != "/" {
			if err = c.move(); err == nil {
				continue
			}
		}
		return fmt.Errorf("start a process in cgroup %s: %w", c.path, errors.Join(errors.New(exit.String()), err))
	}
}

// enable enables the controller for the instances' cgroups. The error says why that is impossible.
func (c *Manager) enable(controller string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.enabled[controller] {
		return nil
	}
	if !hasWord(filepath.Join(c.own, "cgroup.controllers"), controller) {
		return errors.New(c.whyMissing(controller))
	}
	if control := filepath.Join(c.own, "cgroup.subtree_control"); !hasWord(control, controller) {
		err := writeFile(control, "+"+controller)
		if errors.Is(err, unix.EBUSY) && c.leaf == "" {
			if err := c.move(); err != nil {
				return err
			}
			if err = writeFile(control, "+"+controller); err != nil {
				c.moveBack()
			}
		}
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("superd's cgroup %s has other processes; run superd as a service of its own (systemd: Delegate=yes)", path.Dir(c.path))
		}
		if err != nil {
			return err
		}
		c.enabledInOwn = append(c.enabledInOwn, controller)
		if underSystemd() && !isDelegated(c.own) && path.Dir(c.path) != "/" {
			c.log.Warn("systemd may remove the limits of programs: superd's cgroup is not delegated; set Delegate=yes", "cgroup", path.Dir(c.path))
		}
	}
	if err := writeFile(filepath.Join(c.base, "cgroup.subtree_control"), "+"+controller); err != nil {
		return err
	}
	c.enabled[controller] = true
	if controller == "memory" {
		c.countsOOMKills.Store(true)
	}
	return nil
}

// underSystemd reports whether systemd runs the machine. Source: sd_booted(3).
func underSystemd() bool {
	_, err := os.Lstat("/run/systemd/system")
	return err == nil
}

// whyMissing returns why superd's cgroup lacks a controller, and a remedy. Source: cgroups(7),
// /proc/cgroups.
func (c *Manager) whyMissing(controller string) string {
	// columns: subsystem, hierarchy, number of cgroups, enabled
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return fmt.Sprintf("superd's cgroup %s does not have it", path.Dir(c.path))
	}
	name := controller
	if name == "io" {
		name = "blkio" // its name in cgroup v1, which the file has
	}
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) < 4 || f[0] != name:
		case f[3] == "0":
			return fmt.Sprintf("the kernel has it disabled; boot without cgroup_disable=%s", controller)
		case f[1] != "0":
			return "cgroup v1 has it; boot with systemd.unified_cgroup_hierarchy=1, or unmount it there"
		default:
			return fmt.Sprintf("it is not delegated to superd's cgroup %s; under systemd set Delegate=yes", path.Dir(c.path))
		}
	}
	return "the kernel is built without it"
}

// enter moves superd into a cgroup, its keeper first: supervisors that the keeper starts must begin
// there.
func (c *Manager) enter(dir string) error {
	file := filepath.Join(dir, "cgroup.procs")
	if c.options.Keeper > 0 {
		if err := writeFile(file, strconv.Itoa(c.options.Keeper)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return writeFile(file, "0")
}

// move moves superd from its own cgroup into a leaf of it.
func (c *Manager) move() error {
	leaf := filepath.Join(c.own, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return c.explain(leaf, err)
	}
	if err := c.enter(leaf); err != nil {
		c.enter(c.own)
		os.Remove(leaf)
		return err
	}
	c.leaf = leaf
	return nil
}

func (c *Manager) moveBack() error {
	if c.leaf == "" {
		return nil
	}
	if err := c.enter(c.own); err != nil {
		return err
	}
	leaf := c.leaf
	c.leaf = ""
	return os.Remove(leaf)
}

// Close restores superd's cgroup.
func (c *Manager) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserve.close()
	err := removeCgroup(c.base, removePatience)
	for _, base := range c.bases {
		err = errors.Join(err, removeCgroup(base, removePatience))
	}
	if err == nil {
		for _, controller := range c.enabledInOwn {
			err = errors.Join(err, writeFile(filepath.Join(c.own, "cgroup.subtree_control"), "-"+controller))
		}
	}
	if err == nil {
		err = c.moveBack()
	}
	if err != nil {
		c.log.Warn("cgroups not removed: do they have processes?", "error", err)
	}
}

// ready creates the base directory if that failed at superd's start.
func (c *Manager) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.unready {
		return nil
	}
	if err := os.Mkdir(c.base, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := c.probe(); err != nil {
		return err
	}
	c.unready = false
	return nil
}

// explain adds the cause and a remedy to err, the error of making the cgroup dir.
//
// Source: cgroup.max.descendants, cgroup.max.depth and cgroup.stat in
// Documentation/admin-guide/cgroup-v2.rst; cgroup_check_hierarchy_limits in kernel/cgroup/cgroup.c.
func (c *Manager) explain(dir string, err error) error {
	if filepath.Dir(dir) == c.base && !isCgroup(c.base) {
		dir = c.base // it was base that could not be made
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		for above, level := filepath.Dir(dir), 1; isCgroup(above); above, level = filepath.Dir(above), level+1 {
			if file := reachedLimit(above, level); file != "" {
				text, _ := os.ReadFile(file)
				return fmt.Errorf("%w: the limit in %s, which is %s, is reached; raise it: echo max >%s", err, file, strings.TrimSpace(string(text)), file)
			}
		}
		return fmt.Errorf("%w: a limit on cgroups above superd's is reached", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: the kernel has no number for another cgroup; remove unused ones", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w; mount cgroup v2 there so that superd may write to it", err)
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: superd's user may not make cgroups in %s; under systemd set Delegate=yes", err, c.own)
	}
	return err
}
