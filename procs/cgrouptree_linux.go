package procs

import (
	"bytes"
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
	"superd/pidfd"
)

// A cgroupTree is the [Tree] of an instance that has a cgroup: every process starts there and can't
// leave it.
type cgroupTree struct {
	job      // kills and removals
	groups   *cgroups
	instance string
	base     string // parent of its directory
	found    bool   // a predecessor made the directory
	// cgroup.kill was used: no process must be started in this directory any more; guarded by mu
	spoiled bool
	used    bool // an instance has it; guarded by trees.mu

	made     atomic.Bool   // the directory may exist
	spawns   atomic.Uint64 // number of spawns begun or completed in it
	emptyAt  atomic.Uint64 // spawns+1 when it was last seen empty
	oomKills atomic.Int64  // counted by earlier directories

	// Processes that were started while no cgroup could be made; nil: none.
	scan atomic.Pointer[scanTree]

	mu      sync.Mutex
	written map[string]string // active limits, by file
	scanned bool              // the last prepared spawn belongs to scan
}

func (t *cgroupTree) dir() string { return t.base + "/" + t.name() }

func (t *cgroupTree) name() string { return instancePrefix + t.instance }

// strange reports whether its directory is not where superd would make it now: then its path in
// /proc/PID/cgroup is unknown.
func (t *cgroupTree) strange() bool { return t.base != t.groups.base }

// takeOver checks whether a predecessor has left the directory.
func (t *cgroupTree) takeOver(place string) {
	if place == "" && t.groups.fresh {
		return
	}
	if base := filepath.Dir(place); place != "" && base != t.base && filepath.Base(place) == t.name() && isCgroup(place) {
		t.base = base
		if !slices.Contains(t.groups.bases, base) {
			t.groups.bases = append(t.groups.bases, base)
		}
	}
	if t.isLeft() {
		t.made.Store(true)
		t.found = true
	}
}

func (t *cgroupTree) isLeft() bool {
	if left := t.groups.left; left != nil && !t.strange() {
		_, ok := left[t.name()]
		return ok
	}
	_, err := os.Stat(t.dir())
	return err == nil
}

func isCgroup(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// Path implements [Tree].
func (t *cgroupTree) Path() string {
	if t.scanning() != nil {
		return anyPlace
	}
	return t.dir()
}

// scanning returns the tree of processes that were started while no cgroup could be made; nil if
// none of them lives.
func (t *cgroupTree) scanning() *scanTree {
	if scan := t.scan.Load(); scan != nil && !scan.Empty() {
		return scan
	}
	return nil
}

// Lack implements [Tree].
func (t *cgroupTree) Lack() string {
	if t.scanning() == nil {
		return ""
	}
	l := &t.groups.lack
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.why, "none could be made when it was started")
}

// adopt implements [kernelTree]: it sets limits again that may have been lost.
func (t *cgroupTree) adopt(a *RecoveredProcess) error {
	// superd was killed before it recorded that there is no cgroup
	if a.Found != nil && !a.Ended && !t.Has(a.Process.Pid) {
		scan := t.groups.kernel.scan.newTree(t.instance, true)
		t.scan.Store(scan)
		return scan.adopt(a)
	}
	limits := &a.Program.Limits
	if !t.made.Load() || len(limitsIn(limits)) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limitsIn(limits) {
		if err := t.groups.enable(l.controller); err != nil {
			return limitsError(l.limit, l.controller, err)
		}
	}
	return t.limit(limits)
}

// Empty implements [Tree]. The answer is cached until the next spawn.
func (t *cgroupTree) Empty() bool { return t.scanning() == nil && t.vacant() }

// vacant reports whether no process lives in the cgroup.
func (t *cgroupTree) vacant() bool {
	spawns := t.spawns.Load() + 1 // read before the look
	if !t.made.Load() || t.emptyAt.Load() == spawns {
		return true
	}
	if t.strange() || !t.groups.deserted() {
		if t.populated() {
			return false
		}
	}
	t.emptyAt.Store(spawns)
	return true
}

// noteSpawn counts a spawn that is about to happen in the tree, or just did.
func (t *cgroupTree) noteSpawn() {
	t.spawns.Add(1)
	t.groups.spawns.Add(1)
}

func (t *cgroupTree) populated() bool {
	lives := true
	// After an error, processes may live there.
	_ = t.groups.reserve.use(func() (err error) {
		lives, err = populated(t.dir())
		return err
	})
	return lives
}

// populated reports whether a process lives in the cgroup or its descendants, true with an error.
// It reads a file that the kernel serves at once.
func populated(dir string) (bool, error) {
	var buf [256]byte
	switch n, err := procfs.ReadSmall(dir+"/cgroup.events", buf[:]); {
	case err == unix.ENOENT, err == unix.ENODEV:
		return false, nil
	case err != nil:
		return true, err
	default:
		return !bytes.Contains(buf[:n], []byte("populated 0")), nil
	}
}

// OOMKills implements [Tree].
func (t *cgroupTree) OOMKills() int {
	if !t.made.Load() {
		return int(t.oomKills.Load())
	}
	return int(t.oomKills.Load() + t.countOOMKills())
}

// countOOMKills reads the count of the present directory, 0 without the memory controller.
//
// Source: memory.events in Documentation/admin-guide/cgroup-v2.rst.
func (t *cgroupTree) countOOMKills() int64 {
	if !t.groups.countsKills.Load() && !t.strange() {
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

// Look implements [Tree].
func (t *cgroupTree) Look(found func([]Member)) {
	scan := t.scanning()
	if scan == nil {
		t.look(found)
		return
	}
	t.look(func(members []Member) {
		scan.Look(func(others []Member) { found(append(members, others...)) })
	})
}

// look is Look for the processes in the cgroup.
func (t *cgroupTree) look(found func([]Member)) {
	if t.vacant() {
		found(nil)
		return
	}
	k := t.groups.kernel
	go func() {
		for pause := time.Millisecond; ; pause = min(2*pause, lookPause) {
			k.looks <- struct{}{}
			members, err := t.members()
			<-k.looks
			// A listed process may have ended before it is opened, and have left a child that is
			// not listed.
			if len(members) > 0 || err == nil && !t.populated() {
				k.loop.Post(func() { found(members) })
				return
			}
			time.Sleep(pause)
		}
	}()
}

// members opens the processes in the cgroup.
func (t *cgroupTree) members() ([]Member, error) {
	var members []Member
	limit := memberLimit()
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
		case !t.holds(pid):
			p.Close() // the pid was reused since it was listed
		default:
			members = append(members, Member{Process: p, Start: s.Start, Group: s.Group, Command: s.Command})
		}
	}
	return members, nil
}

// holds reports whether the process with this pid is in the cgroup or its descendants.
func (t *cgroupTree) holds(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	if t.strange() {
		return slices.Contains(pidsIn(t.dir()), pid)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "0::"+path.Join(t.groups.path, t.name())); ok {
			return rest == "\n" || strings.HasPrefix(rest, "/")
		}
	}
	return false
}

// Has implements [Tree].
func (t *cgroupTree) Has(pid int) bool {
	scan := t.scanning()
	return t.made.Load() && t.holds(pid) || scan != nil && scan.Has(pid)
}

// Kill implements [Tree]. It returns before the signal is sent.
func (t *cgroupTree) Kill() error {
	if scan := t.scanning(); scan != nil {
		if err := scan.Kill(); err != nil {
			return err
		}
	}
	if t.made.Load() {
		t.begin(&t.groups.kills, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.spoiled = true
			err := t.groups.reserve.use(func() error { return writeFile(t.dir()+"/cgroup.kill", "1") })
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				err = t.killEach()
			}
			if err != nil {
				t.groups.log.Error("tree not killed at once", "cgroup", t.dir(), "error", err)
			}
		})
	}
	return nil
}

// killRounds bounds how often killEach looks for remaining processes.
const killRounds = 100

// killEach is Kill for kernels before 5.14, which have no cgroup.kill. Frozen processes can't fork
// meanwhile, but die of SIGKILL.
func (t *cgroupTree) killEach() error {
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

// Remove implements [Tree].
func (t *cgroupTree) Remove() {
	if scan := t.scan.Swap(nil); scan != nil {
		scan.Remove()
	}
	t.groups.trees.leave(t)
	if !t.made.Load() {
		return
	}
	t.begin(&t.groups.removals, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err := t.discard(); err != nil {
			t.groups.log.Warn("cgroup not removed: does a process live in it?", "error", err)
		}
		t.groups.trees.drop(t)
	})
}

// discard removes the directory. The caller holds t.mu.
func (t *cgroupTree) discard() error {
	kills := t.countOOMKills()
	if err := removeCgroup(t.dir(), removePatience); err != nil {
		return err
	}
	t.oomKills.Add(kills)
	t.made.Store(false)
	t.written, t.spoiled, t.found = nil, false, false
	return nil
}

// prepareSpawn implements [kernelTree].
//
// After cgroup.kill the directory is made anew. Since 6.14, the kernel kills a process that is
// forked while its cgroup is killed: it compares the number of kills before and after the fork. For
// a fork into another cgroup than the parent's, it takes the first number from the parent's cgroup.
// So once a cgroup was killed, each process forked into it dies at once.
//
// Source: cgroup_css_set_fork and cgroup_post_fork in kernel/cgroup/cgroup.c.
func (t *cgroupTree) prepareSpawn(limits *config.Limits) (int, error) {
	t.noteSpawn()
	t.wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limitsIn(limits) {
		if err := t.groups.enable(l.controller); err != nil {
			return -1, limitsError(l.limit, l.controller, err)
		}
	}
	if t.spoiled || t.found && !t.populated() { // it may have been killed
		if err := t.discard(); err != nil {
			return -1, &SpawnError{Stage: "remove cgroup of the run before", Path: t.dir(), Err: cause(err), Fault: faultResource}
		}
	}
	t.scanned = false
	fd, err := -1, error(unix.ENOENT)
	if t.made.Load() { // by the run before
		fd, err = openCgroup(t.dir())
	}
	if err == unix.ENOENT {
		if err := t.make(); err != nil {
			why := t.groups.explain(t.dir(), cause(err))
			t.groups.lack.note(t.groups.log, fmt.Errorf("make cgroup %s: %w", t.dir(), why))
			if len(limitsIn(limits)) > 0 {
				return -1, &SpawnError{Stage: "make cgroup", Path: t.dir(), Err: why, Fault: faultOf(err)}
			}
			return t.prepareScanned(limits)
		}
		t.groups.lack.end(t.groups.log)
		fd, err = openCgroup(t.dir())
	}
	if err != nil {
		return -1, &SpawnError{Stage: "open cgroup", Path: t.dir(), Err: err, Fault: faultOf(err)}
	}
	if err := t.limit(limits); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// make makes the directory. The caller holds t.mu.
func (t *cgroupTree) make() error {
	if err := t.groups.ready(); err != nil {
		return err
	}
	switch err := os.Mkdir(t.dir(), 0o755); {
	case err == nil:
		t.written, t.found = nil, false
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	t.made.Store(true)
	return nil
}

// prepareScanned is prepareSpawn while no cgroup can be made. The caller holds t.mu.
func (t *cgroupTree) prepareScanned(limits *config.Limits) (int, error) {
	scan := t.scan.Load()
	if scan == nil {
		scan = t.groups.kernel.scan.newTree(t.instance, false)
		t.scan.Store(scan)
	}
	t.scanned = true
	return scan.prepareSpawn(limits)
}

// openCgroup opens a cgroup as the target of a fork.
func openCgroup(dir string) (int, error) {
	return retry(func() (int, error) { return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
}

func (t *cgroupTree) limit(limits *config.Limits) error {
	const none = "max"
	memory, group, cpu, tasks := none, "0", none, none
	if limits.Memory != nil {
		// The OOM killer must end all processes together: a program that has lost a random process
		// is of no use.
		memory, group = strconv.FormatInt(*limits.Memory, 10), "1"
	}
	if limits.CPU != nil {
		cpu = cpuMax(*limits.CPU)
	}
	if limits.Tasks != nil {
		tasks = strconv.FormatInt(*limits.Tasks, 10)
	}
	for _, f := range []struct{ limit, file, text, unset string }{
		{"memory", "memory.max", memory, none},
		{"memory", "memory.oom.group", group, "0"},
		{"cpu", "cpu.max", cpu, none},
		{"tasks", "pids.max", tasks, none},
	} {
		file := filepath.Join(t.dir(), f.file)
		before, ok := t.written[f.file]
		if !ok {
			before = f.unset
		}
		if !ok && t.found {
			if text, err := os.ReadFile(file); err == nil {
				before = strings.TrimSpace(string(text))
			}
		}
		if f.text == before {
			continue
		}
		if err := writeFile(file, f.text); err != nil {
			return &SpawnError{Stage: "limit " + f.limit + ": write", Path: file, Err: cause(err), Fault: faultOf(err)}
		}
		if t.written == nil {
			t.written = map[string]string{}
		}
		t.written[f.file] = f.text
	}
	return nil
}

// cpuMax returns a number of CPUs in the form of cpu.max: microseconds per period. The kernel
// accepts quotas from 1 ms and periods up to 1 s.
func cpuMax(share float64) string {
	const least, usual, longest = 1_000, 100_000, 1_000_000
	period := usual
	if share*usual < least {
		period = longest
	}
	quota := max(int64(share*float64(period)+0.5), least)
	return strconv.FormatInt(quota, 10) + " " + strconv.Itoa(period)
}

// registerSpawned implements [kernelTree]: the kernel knows the processes in the cgroup.
func (t *cgroupTree) registerSpawned(id pidfd.Identity, fifos []int) {
	t.noteSpawn()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.scanned {
		t.scan.Load().registerSpawned(id, fifos)
	}
}

// makeRoom implements [kernelTree]. A program may divide its cgroup as superd does, and end without
// cleaning up. Then no process can be started there, as the cgroup passes controllers on.
func (t *cgroupTree) makeRoom(cause error) bool {
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

// cause removes operation and path from an error: the message around it has them.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}
