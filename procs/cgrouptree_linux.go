package procs

import (
	"bytes"
	"errors"
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
	"superd/pidfd"
)

// A cgroupTree is the [Tree] of an instance that has a cgroup: every process is born there, and stays there whatever it calls.
type cgroupTree struct {
	errand   // kills and removals
	groups   *cgroups
	instance string
	base     string // the directory that its own lies in
	found    bool   // an earlier superd has made it
	spoiled  bool   // by cgroup.kill: nobody must be born in this directory any more; guarded by mu

	made     atomic.Bool   // there may be a directory
	births   atomic.Uint64 // that are about to come there, or just did
	emptyAt  atomic.Uint64 // one more than births were when nobody lived there
	oomKills atomic.Int64  // that earlier directories have counted

	mu      sync.Mutex
	written map[string]string // limits as they are in force, by file
}

// newTree returns the tree of the instance. place is its directory where an earlier superd has made it, empty otherwise.
func (c *cgroups) newTree(instance, place string) *cgroupTree {
	t := c.trees[instance]
	if t == nil || t.strange() && place == "" {
		t = &cgroupTree{groups: c, instance: instance, base: c.base}
		c.trees[instance] = t
		t.takeOver(place)
	}
	return t
}

// dir is its directory.
func (t *cgroupTree) dir() string { return t.base + "/" + t.name() }

// name is that of its directory.
func (t *cgroupTree) name() string { return instancePrefix + t.instance }

// strange reports whether its directory is not where superd would make it now: how /proc/PID/cgroup shows it is not known.
func (t *cgroupTree) strange() bool { return t.base != t.groups.base }

// takeOver looks whether an earlier superd has left the directory.
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

// isLeft reports whether an earlier superd has left the directory.
func (t *cgroupTree) isLeft() bool {
	if left := t.groups.left; left != nil && !t.strange() {
		_, ok := left[t.name()]
		return ok
	}
	_, err := os.Stat(t.dir())
	return err == nil
}

// isCgroup reports whether the directory is a cgroup's.
func isCgroup(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// Place implements [Tree].
func (t *cgroupTree) Place() string { return t.dir() }

// adopt implements [kernelTree]: limits may have been out of force meanwhile.
func (t *cgroupTree) adopt(a *Adoptee) error {
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

// Empty implements [Tree]. As long as nobody has been born there since, it need not be asked for again.
func (t *cgroupTree) Empty() bool {
	births := t.births.Load() + 1 // before it looks
	if !t.made.Load() || t.emptyAt.Load() == births {
		return true
	}
	if t.strange() || !t.groups.deserted() {
		if t.populated() {
			return false
		}
	}
	t.emptyAt.Store(births)
	return true
}

// settle tells that somebody is about to be born in the tree, or just was.
func (t *cgroupTree) settle() {
	t.births.Add(1)
	t.groups.births.Add(1)
}

func (t *cgroupTree) populated() bool {
	lives := true
	// An error says that somebody may live there.
	_ = t.groups.reserve.use(func() (err error) {
		lives, err = populated(t.dir())
		return err
	})
	return lives
}

// populated reports whether a process lives in the cgroup or one in it, true with an error. It reads a file that the kernel answers at once.
func populated(dir string) (bool, error) {
	var buf [256]byte
	switch n, err := readSmall(dir+"/cgroup.events", buf[:]); {
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

// countOOMKills reads what the present directory has counted, 0 without the memory controller.
//
// Source: memory.events in Documentation/admin-guide/cgroup-v2.rst.
func (t *cgroupTree) countOOMKills() int64 {
	if !t.groups.countsKills.Load() && !t.strange() {
		return 0
	}
	var buf [512]byte
	n, err := readSmall(t.dir()+"/memory.events", buf[:])
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

// lookPause is how long a look that met nobody, though somebody lives there, waits before the next one, at most.
const lookPause = 50 * time.Millisecond

// Look implements [Tree].
func (t *cgroupTree) Look(found func([]Member)) {
	if t.Empty() {
		found(nil)
		return
	}
	k := t.groups.kernel
	go func() {
		for pause := time.Millisecond; ; pause = min(2*pause, lookPause) {
			k.looks <- struct{}{}
			members, err := t.members()
			<-k.looks
			// Whom a list names may have ended before he is opened, and have left a child that the list doesn't name.
			if len(members) > 0 || err == nil && !t.populated() {
				k.loop.Post(func() { found(members) })
				return
			}
			time.Sleep(pause)
		}
	}()
}

// members opens those who live in the cgroup.
func (t *cgroupTree) members() ([]Member, error) {
	var members []Member
	limit := memberLimit()
	for _, pid := range pidsIn(t.dir()) {
		if len(members) == limit {
			break
		}
		s, err := readStat(pid)
		if err != nil || s.dead {
			continue
		}
		p, err := openProcess(&s)
		switch {
		case errors.Is(err, pidfd.ErrGone):
		case err != nil && len(members) > 0:
			return members, nil
		case err != nil:
			return nil, err
		case !t.holds(pid):
			p.Close() // the pid has got another owner since it was listed
		default:
			members = append(members, Member{Process: p, Start: s.start, Group: s.group, Command: s.command})
		}
	}
	return members, nil
}

// holds reports whether the process that has this pid lives in the cgroup or one in it.
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
func (t *cgroupTree) Has(pid int) bool { return t.made.Load() && t.holds(pid) }

// Kill implements [Tree]. The signal is on its way when Kill has returned.
func (t *cgroupTree) Kill() error {
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

// killRounds bounds how often killEach looks whether somebody is left.
const killRounds = 100

// killEach is Kill for kernels before 5.14, which have no cgroup.kill. Frozen processes can't bring forth others meanwhile, and
// die of SIGKILL as others do.
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
	if !t.made.Load() {
		return
	}
	t.begin(&t.groups.removals, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if err := t.discard(); err != nil {
			t.groups.log.Warn("cgroup not removed: does a process live in it?", "error", err)
		}
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

// admit implements [kernelTree].
//
// After cgroup.kill the directory is made anew. From 6.14 on, the kernel kills a process that is born while its cgroup is killed: it compares
// the number of kills before and after the birth, but of a process that is born in another cgroup than its parent's it takes the first
// number from the parent's, so that once a cgroup was killed whoever is born in it dies at once.
//
// Source: cgroup_css_set_fork and cgroup_post_fork in kernel/cgroup/cgroup.c.
func (t *cgroupTree) admit(limits *config.Limits) (int, error) {
	t.settle()
	t.wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range limitsIn(limits) {
		if err := t.groups.enable(l.controller); err != nil {
			return -1, limitsError(l.limit, l.controller, err)
		}
	}
	if t.spoiled || t.found && !t.populated() { // whether it was killed, nobody knows
		if err := t.discard(); err != nil {
			return -1, &SpawnError{Stage: "remove cgroup of the run before", Path: t.dir(), Err: cause(err), Fault: faultResource}
		}
	}
	fd, err := -1, error(unix.ENOENT)
	if t.made.Load() { // by the run before
		fd, err = openCgroup(t.dir())
	}
	if err == unix.ENOENT {
		switch err := os.Mkdir(t.dir(), 0o755); {
		case err == nil:
			t.written, t.found = nil, false
		case !errors.Is(err, fs.ErrExist):
			return -1, &SpawnError{Stage: "make cgroup", Path: t.dir(), Err: cause(err), Fault: faultOf(err)}
		}
		t.made.Store(true)
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

// openCgroup opens a cgroup that somebody is to be born in.
func openCgroup(dir string) (int, error) {
	return retry(func() (int, error) { return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
}

// limit puts the limits in force.
func (t *cgroupTree) limit(limits *config.Limits) error {
	const none = "max"
	memory, group, cpu, tasks := none, "0", none, none
	if limits.Memory != nil {
		// Together: what is left of a program that has lost one of its processes at random is worth nothing.
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

// cpuMax returns a share of CPUs as cpu.max has it: microseconds in each period. The kernel takes quotas from 1 ms and periods up to 1 s.
func cpuMax(share float64) string {
	const least, usual, longest = 1_000, 100_000, 1_000_000
	period := usual
	if share*usual < least {
		period = longest
	}
	quota := max(int64(share*float64(period)+0.5), least)
	return strconv.FormatInt(quota, 10) + " " + strconv.Itoa(period)
}

// born implements [kernelTree]: who it is the kernel knows.
func (t *cgroupTree) born(pidfd.Identity, []int) { t.settle() }

// makeRoom implements [kernelTree]. A program may divide its cgroup as superd does, and end without tidying up: then nobody can be
// born there, since it hands controllers down.
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
