package procs

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
	"time"

	"golang.org/x/sys/unix"

	"superd/mounts"
	"superd/pidfd"
)

// Names of directories. Those of instances have a prefix, since the kernel's files lie beside them: a program may be called
// memory.max.
const (
	basePrefix     = "superd-"
	instancePrefix = "program-"
	leafName       = "supervisor"
	probeName      = "probe"
)

// cgroups is a directory in the cgroup v2 hierarchy, below superd's own cgroup, with a cgroup for each instance in it. What is
// done here may wait for a lock of the kernel's, so it is done off the loop.
//
// Controllers are another matter. A cgroup that hands controllers down to the cgroups in it must not hold processes itself, the root
// excepted, and superd's own cgroup holds superd. So superd moves into a cgroup "supervisor" beside those of the programs, but only when
// a program has a limit that needs a controller: for everybody else nothing moves, and a systemd that restarts superd while programs
// live on finds its cgroup as it has made it. Source: Documentation/admin-guide/cgroup-v2.rst, "No Internal Process Constraint".
type cgroups struct {
	keeper          int // pid of superd's keeper; 0: it has none
	kernel          *Kernel
	reserve         *reserve
	log             *slog.Logger
	own             string // directory of superd's cgroup, less the leaf it may be in
	base            string // directory in it
	path            string // of base, as /proc/PID/cgroup shows it
	kills, removals runners
	trees           map[string]*cgroupTree // by instance, on the loop; kept, so that a program which is added again meets its old tree
	bases           []string               // other base directories, of earlier superds that were in other cgroups
	countsKills     atomic.Bool            // instances have the memory controller, which counts
	fresh           bool                   // no earlier superd has left anything in base
	births          atomic.Uint64          // that are about to come, or just did, in all trees
	seen            seen                   // on the loop

	mu      sync.Mutex
	enabled map[string]bool // controllers that instances have
	raised  []string        // those that superd's cgroup hands down at our wish
	leaf    string          // where superd has moved to; empty: it has not
}

// A seen is whether anybody lives in any of the cgroups, as the kernel has told when there had been so many births.
type seen struct {
	births uint64
	asked  int // how often a tree was asked for since
	nobody bool
}

// askPeriod is of how many questions for one tree one is put for all of them.
const askPeriod = 16

// deserted reports whether nobody is known to live in any of the cgroups in base: where a thousand programs have ended, that need not be read a thousand
// times. As long as some are born it does not look, and otherwise not each time. On the loop.
func (c *cgroups) deserted() bool {
	if births := c.births.Load(); births != c.seen.births { // before it looks
		c.seen = seen{births: births}
	}
	if c.seen.nobody {
		return true
	}
	if c.seen.asked++; c.seen.asked%askPeriod != 0 {
		return false
	}
	lives, err := populated(c.base)
	c.seen.nobody = err == nil && !lives
	return c.seen.nobody
}

// openCgroups finds superd's cgroup and makes the base directory in it, unless an earlier superd has left one, in which processes may live. The error
// says why superd can't have cgroups.
func openCgroups(k *Kernel, runtimeDir string, keeper int, log *slog.Logger) (*cgroups, error) {
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
		// Superd is in a leaf already: an earlier superd, of which this is an upgrade, has moved there, or systemd has
		// started it there (DelegateSubgroup=).
		dir, cgroup = filepath.Dir(dir), path.Dir(cgroup)
	}
	// The name is made from the runtime directory: no other superd has it, and the next one finds what this one leaves.
	sum := sha256.Sum256([]byte(runtimeDir))
	name := basePrefix + hex.EncodeToString(sum[:6])
	c := &cgroups{kernel: k, reserve: newReserve(), log: log, keeper: keeper, own: dir, base: filepath.Join(dir, name), path: path.Join(cgroup, name),
		trees: map[string]*cgroupTree{}, enabled: map[string]bool{},
		kills: runners{most: killSlots}, removals: runners{most: removeSlots}}
	err = os.Mkdir(c.base, 0o755)
	existed := errors.Is(err, fs.ErrExist)
	switch {
	case existed:
		c.takeOver()
	case err != nil:
		return nil, fmt.Errorf("make cgroup: %w", err)
	default:
		c.fresh = true
	}
	switch err := c.probe(); {
	case err == nil:
	case existed && faultOf(err) == faultResource: // it passes, and an earlier superd has found that it can be done
	case existed: // whatever is there may be somebody's
		c.reserve.close()
		return nil, err
	default:
		c.close()
		return nil, err
	}
	return c, nil
}

// findCgroup returns the directory of superd's cgroup v2 and its path in the hierarchy, from the texts of /proc/self/mountinfo and
// /proc/self/cgroup. There may be a v1 hierarchy beside it, or v2 may be mounted beside v1 as /sys/fs/cgroup/unified.
//
// Source: proc_pid_mountinfo(5), cgroups(7).
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
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if len(fields) < 6 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		mounted = true
		root, point := mounts.Unescape(fields[3]), mounts.Unescape(fields[4])
		below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(root, "/"))
		if ok && (below == "" || below[0] == '/') && !slices.Contains(strings.Split(fields[5], ","), "ro") {
			return filepath.Join(point, below), cgroup, nil
		}
	}
	if !mounted {
		return "", "", errors.New("cgroup v2 is not mounted")
	}
	return "", "", fmt.Errorf("no writable mount of cgroup v2 shows superd's cgroup %s", cgroup)
}

// isDelegated reports whether systemd has marked the cgroup as its user's to divide. Source: systemd's CGROUP_DELEGATION.md.
func isDelegated(dir string) bool {
	var value [1]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Lgetxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// takeOver takes note of what an earlier superd has changed in the cgroup that it was in.
func (c *cgroups) takeOver() {
	c.countsKills.Store(hasWord(filepath.Join(c.base, "cgroup.subtree_control"), "memory"))
	leaf := filepath.Join(c.own, leafName)
	if _, err := os.Stat(leaf); err != nil || isDelegated(c.own) {
		return // it has not moved, so that there was nothing to raise, or systemd has made the leaf
	}
	c.leaf = leaf
	if err := c.enter(leaf); err != nil {
		c.log.Warn("superd not moved into the cgroup of the one before", "cgroup", leaf, "error", err)
	}
	if text, err := os.ReadFile(filepath.Join(c.own, "cgroup.subtree_control")); err == nil {
		c.raised = strings.Fields(string(text))
	}
}

// probe finds out whether a process can be born in a cgroup. A version check would not do: rights and filters of system calls
// (seccomp) have a say in it.
func (c *cgroups) probe() error {
	dir := filepath.Join(c.base, probeName)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // of a superd that was killed here
		return fmt.Errorf("make cgroup: %w", err)
	}
	fd, err := openCgroup(dir)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	for {
		// There is no file without a name: when the exec fails of that, the birth before it went well.
		child, err := pidfd.Spawn(&pidfd.Attr{CgroupFD: fd})
		switch {
		case errors.Is(err, unix.ENOENT):
			removeCgroup(dir, removePatience) // one that is left goes with base
			return nil
		case err != nil:
			return fmt.Errorf("start a process in cgroup %s: %w", c.path, err)
		}
		// It did not come as far as that: it was killed, since superd's own cgroup has been killed before (see admit). A new one has not.
		exit, err := awaitExit(child)
		child.Close()
		if err == nil && c.leaf == "" && path.Dir(c.path) != "/" {
			if err = c.move(); err == nil {
				continue
			}
		}
		return fmt.Errorf("start a process in cgroup %s: %w", c.path, errors.Join(errors.New(exit.String()), err))
	}
}

// enable has the controller in force for each instance. The error says why it can't be had.
func (c *cgroups) enable(controller string) error {
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
			return fmt.Errorf("other processes live in superd's cgroup %s; run superd as a service of its own (systemd: Delegate=yes)", path.Dir(c.path))
		}
		if err != nil {
			return err
		}
		c.raised = append(c.raised, controller)
		if underSystemd() && !isDelegated(c.own) && path.Dir(c.path) != "/" {
			c.log.Warn("systemd may take the limits of programs away: superd's cgroup is not delegated to it; set Delegate=yes", "cgroup", path.Dir(c.path))
		}
	}
	if err := writeFile(filepath.Join(c.base, "cgroup.subtree_control"), "+"+controller); err != nil {
		return err
	}
	c.enabled[controller] = true
	if controller == "memory" {
		c.countsKills.Store(true)
	}
	return nil
}

// underSystemd reports whether systemd runs the machine. Source: sd_booted(3).
func underSystemd() bool {
	_, err := os.Lstat("/run/systemd/system")
	return err == nil
}

// whyMissing tells why superd's cgroup lacks a controller, and what to do about it. Source: cgroups(7), /proc/cgroups.
func (c *cgroups) whyMissing(controller string) string {
	text, err := os.ReadFile("/proc/cgroups") // subsystem, hierarchy, number of cgroups, enabled
	if err != nil {
		return fmt.Sprintf("superd's cgroup %s does not have it", path.Dir(c.path))
	}
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) < 4 || f[0] != controller:
		case f[3] == "0":
			return fmt.Sprintf("the kernel has it switched off; boot without cgroup_disable=%s", controller)
		case f[1] != "0":
			return "cgroup v1 has it; boot with systemd.unified_cgroup_hierarchy=1, or unmount it there"
		default:
			return fmt.Sprintf("superd's cgroup %s has not got it from above; under systemd set Delegate=yes", path.Dir(c.path))
		}
	}
	return "the kernel is built without it"
}

// enter moves superd into a cgroup, its keeper first: what it starts has to be born there.
func (c *cgroups) enter(dir string) error {
	file := filepath.Join(dir, "cgroup.procs")
	if c.keeper > 0 {
		if err := writeFile(file, strconv.Itoa(c.keeper)); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return writeFile(file, "0")
}

// move takes superd out of its own cgroup into a leaf of it.
func (c *cgroups) move() error {
	leaf := filepath.Join(c.own, leafName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := c.enter(leaf); err != nil {
		c.enter(c.own)
		os.Remove(leaf)
		return err
	}
	c.leaf = leaf
	return nil
}

func (c *cgroups) moveBack() error {
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

// close leaves superd's cgroup as it was.
func (c *cgroups) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserve.close()
	err := removeCgroup(c.base, removePatience)
	for _, base := range c.bases {
		err = errors.Join(err, removeCgroup(base, removePatience))
	}
	if err == nil {
		for _, controller := range c.raised {
			err = errors.Join(err, writeFile(filepath.Join(c.own, "cgroup.subtree_control"), "-"+controller))
		}
	}
	if err == nil {
		err = c.moveBack()
	}
	if err != nil {
		c.log.Warn("cgroups not removed: does a process live in them?", "error", err)
	}
}

// hasWord reports whether a file of words separated by spaces has word in it.
func hasWord(file, word string) bool {
	text, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(text)), word)
}

// removePatience is how long the kernel may take to let a cgroup go whose last process has just ended.
const removePatience = 500 * time.Millisecond

// removeCgroup removes a cgroup with those in it. It does nothing when there is none.
func removeCgroup(dir string, patience time.Duration) error {
	for deadline, pause := time.Now().Add(patience), time.Millisecond; ; {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || err == unix.ENOENT:
			return nil
		case err == unix.EINTR:
			continue
		case err != unix.EBUSY:
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		}
		removed := false
		for _, nested := range cgroupsIn(dir) { // what can't be removed keeps dir from being removed, too
			removed = removeCgroup(nested, 0) == nil || removed
		}
		switch {
		case removed:
		case time.Now().After(deadline):
			return &os.PathError{Op: "remove", Path: dir, Err: err}
		default:
			time.Sleep(pause)
			pause *= 2
		}
	}
}

// cgroupsIn returns the directories of the cgroups in a cgroup.
func cgroupsIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var dirs []string
	for _, entry := range entries {
		if entry.IsDir() {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	return dirs
}

// pidsIn returns the processes of a cgroup and of those in it.
func pidsIn(dir string) []int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded cgroup: its processes are in the one above
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0: of another pid namespace
			pids = append(pids, pid)
		}
	}
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) == nil && stat.Nlink <= 2 {
		return pids // the kernel counts the cgroups in it as links
	}
	for _, nested := range cgroupsIn(dir) {
		pids = append(pids, pidsIn(nested)...)
	}
	return pids
}
