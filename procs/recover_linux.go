package procs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/notify"
)

// Adopt implements [System].
func (k *Kernel) Adopt(all []*RecoveredProcess) {
	inParallel(len(all), func(i int) { k.adopt(all[i]) })
	if k.cgroups != nil {
		k.cgroups.left = nil // a tree that comes later reads its own state
	}
}

func (k *Kernel) adopt(a *RecoveredProcess) {
	if a.Process != (pidfd.Identity{}) {
		p, err := openRecovered(a.Process, a.PidFD)
		switch {
		case err == nil:
			a.Found = p
		case !errors.Is(err, pidfd.ErrGone):
			a.Err = err
		}
	} else {
		closeInherited(a.PidFD)
	}
	for i := range a.Outputs {
		o := &a.Outputs[i]
		o.ReadFD, o.Err = k.adoptOutput(a, o)
	}
	if a.NotifySocket != "" && a.NotifyFD < 0 {
		a.NotifyFD = k.adoptNotify(a)
	}
	if a.ReadyNumber > 0 && a.ReadyFD < 0 && a.Found != nil {
		a.ReadyFD = k.adoptReady(a)
	}
	a.Ended = a.Found == nil || a.Found.Ended() // checked after the read ends are open
	if tree, ok := a.Tree.(kernelTree); ok && a.Err == nil {
		if err := tree.adopt(a); err != nil {
			k.log.Warn("limits not in force until the next start", "instance", a.Instance, "error", err)
		}
	}
}

// openRecovered returns the process, from its pidfd, which it then owns, or by its identity.
func openRecovered(id pidfd.Identity, fd int) (*pidfd.Process, error) {
	if fd >= 0 {
		p, err := pidfd.Take(fd, id)
		if err == nil || errors.Is(err, pidfd.ErrGone) {
			return p, err
		}
	}
	return pidfd.Reopen(id)
}

// adoptOutput returns the read end of a FIFO of the instance: the stored one; else the FIFO at its
// path; else, if another file is there, the one that the process has open.
func (k *Kernel) adoptOutput(a *RecoveredProcess, o *RecoveredOutput) (int, error) {
	if o.ReadFD >= 0 {
		if isFIFO(o.ReadFD) {
			return o.ReadFD, nil
		}
		closeInherited(o.ReadFD)
	}
	fd, err := logs.AdoptFIFO(o.FIFO)
	if (a.Found == nil || a.Found.Ended()) && errors.Is(err, os.ErrNotExist) {
		return -1, nil // a shutdown removed it; the next start makes another
	}
	if err == nil || a.Found == nil {
		return fd, err
	}
	for _, n := range []string{"0", "1", "2"} {
		path := filepath.Join("/proc", strconv.Itoa(a.Process.Pid), "fd", n)
		target, e := os.Readlink(path)
		if e != nil || target != o.FIFO && target != o.FIFO+" (deleted)" {
			continue
		}
		fd, e := retry(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
		if e == nil && isFIFO(fd) && !a.Found.(*pidfd.Process).Gone() {
			k.log.Warn("FIFO is not where it was: taken from the program", "instance", a.Instance, "error", err)
			return fd, nil
		}
		closeInherited(fd)
	}
	return -1, err
}

// adoptNotify makes a notify socket in place of one that is closed. Messages in the old one are
// lost.
func (k *Kernel) adoptNotify(a *RecoveredProcess) int {
	fd, err := notify.Open(a.NotifySocket)
	if err != nil {
		k.log.Error("notifications are not heard", "instance", a.Instance, "error", err)
	}
	return fd
}

// adoptReady returns a read end of the process's readiness pipe.
func (k *Kernel) adoptReady(a *RecoveredProcess) int {
	path := filepath.Join("/proc", strconv.Itoa(a.Process.Pid), "fd", strconv.Itoa(a.ReadyNumber))
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1
	}
	if !isFIFO(fd) || a.Found.(*pidfd.Process).Gone() {
		unix.Close(fd)
		return -1
	}
	return fd
}

func isFIFO(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// closeInherited closes fd, which may be -1.
func closeInherited(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// A trace is a process that a supervisor of the same runtime directory has started, directly or
// indirectly.
type trace struct {
	stat procfs.Stat
	envTags
}

// Search implements [System]. It reads the environment of every process.
func (k *Kernel) Search(lookup []*LookupRequest, known map[string]bool, users func(string) []string) ([]Leftover, error) {
	wanted := map[string]*LookupRequest{}
	since := uint64(math.MaxUint64) // later than any start
	for _, w := range lookup {
		wanted[w.Run] = w
		since = min(since, w.earliest())
	}
	traces, err := findTraces(k.runtimeDir, since)
	if err != nil {
		return nil, err
	}
	check := claimCheck{fifoDir: k.fifoDir, keeper: k.keeper, users: users}
	var leftovers, liars []Leftover
	leaders := map[*LookupRequest][]*trace{}
	runs := map[string][]*trace{} // leftover processes by run
	for i := range traces {
		t := &traces[i]
		w := wanted[t.run]
		switch {
		case t.probe: // it is killed, see [execProbe]
		case w != nil && t.leads() && t.stat.Start >= w.earliest():
			leaders[w] = append(leaders[w], t)
		case known[t.run]:
		case !check.believes(t):
			liars = append(liars, t.leftover())
		default:
			leftovers = append(leftovers, t.leftover())
			runs[t.run] = append(runs[t.run], t)
		}
	}
	if len(liars) > 0 {
		k.log.Warn("processes that look like superd's own are left alone: they belong to other users",
			"processes", leftoverText(liars))
	}
	if err := markEldest(leftovers, runs); err != nil {
		return nil, err
	}
	for _, w := range lookup {
		found := leaders[w]
		if first := eldest(found); first != nil {
			if w.Found, err = identify(&first.stat); err == nil || errors.Is(err, pidfd.ErrGone) {
				continue
			}
			return nil, err
		}
		for _, t := range found {
			leftovers = append(leftovers, t.leftover())
		}
	}
	return leftovers, nil
}

// markEldest sets Eldest of the leftover processes that are the eldest session leaders of their
// runs.
func markEldest(leftovers []Leftover, runs map[string][]*trace) error {
	for i := range leftovers {
		leftover := &leftovers[i]
		first := eldest(slices.DeleteFunc(slices.Clone(runs[leftover.Run]), func(t *trace) bool { return !t.leads() }))
		if first == nil || first.stat.Pid != leftover.Pid {
			continue
		}
		id, err := identify(&first.stat)
		if err != nil && !errors.Is(err, pidfd.ErrGone) {
			return err
		}
		leftover.Eldest = id
	}
	return nil
}

// leads reports whether the process leads a session, as does each process that superd started
// itself.
func (t *trace) leads() bool { return t.stat.Session == t.stat.Pid }

// Lives implements [System].
func (k *Kernel) Lives(id pidfd.Identity) bool {
	p, err := pidfd.Reopen(id)
	if err != nil {
		return !errors.Is(err, pidfd.ErrGone)
	}
	p.Close()
	return true
}

// eldest returns the process from which all others descend; nil if there is none.
func eldest(all []*trace) *trace {
	for _, t := range all {
		if !slices.ContainsFunc(all, func(other *trace) bool { return other != t && !descends(other.stat, &t.stat) }) {
			return t
		}
	}
	return nil
}

// descends reports whether ancestor is an ancestor of s.
func descends(s procfs.Stat, ancestor *procfs.Stat) bool {
	for range maxAncestors {
		parent, err := procfs.ReadStat(s.Parent)
		if err != nil || parent.Start > s.Start {
			return false
		}
		if keyOf(&parent) == keyOf(ancestor) {
			return true
		}
		s = parent
	}
	return false
}

// earliest returns the least start time that fits the request, in clock ticks since boot: the
// kernel's rounding may differ from the clock's.
func (w *LookupRequest) earliest() uint64 { return max(w.After, 1) - 1 }

func (t *trace) leftover() Leftover {
	return Leftover{Pid: t.stat.Pid, Command: t.stat.Command, Instance: t.instance, Run: t.run, Leads: t.leads()}
}

// identify returns the identity of the process that s was read from.
func identify(s *procfs.Stat) (pidfd.Identity, error) {
	p, err := procfs.OpenProcess(s)
	if err != nil {
		return pidfd.Identity{}, err
	}
	defer p.Close()
	return p.Identity()
}

// lookupPatience bounds how long findTraces waits for a process that a lookup request may mean.
const lookupPatience = 2 * time.Second

// findTraces scans /proc for processes with an invocation id and the runtime directory in their
// environment tags. It retries processes whose environment can't be read yet: for askPatience, or
// for lookupPatience if they lead a session and are not older than since, in clock ticks since
// boot.
func findTraces(runtimeDir string, since uint64) ([]trace, error) {
	pids, err := procfs.Pids()
	if err != nil {
		return nil, err
	}
	all, errs := make([]trace, len(pids)), make([]error, len(pids))
	mute := make([]bool, len(pids))
	ask := func(i int) {
		s, err := procfs.ReadStat(pids[i])
		if err != nil || s.Dead || s.Pid == os.Getpid() {
			errs[i] = shortage(err)
			return
		}
		m, told, err := readTagsOf(&s)
		all[i], mute[i], errs[i] = trace{s, m}, !told, err
	}
	inParallel(len(pids), ask)
	for began, waits := time.Now(), true; waits; {
		waits = false
		for i, is := range mute {
			age := time.Since(began)
			if s := &all[i].stat; !is || age > lookupPatience || age > askPatience && (s.Session != s.Pid || s.Start < since) {
				continue
			}
			all[i], mute[i] = trace{}, false
			ask(i)
			waits = waits || mute[i]
		}
		if waits {
			time.Sleep(time.Millisecond)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read /proc: %w", err)
	}
	return slices.DeleteFunc(all, func(t trace) bool { return t.run == "" || t.owner != runtimeDir }), nil
}

// bootTicks returns the time since boot in clock ticks, the unit of start times in /proc.
func bootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano()) / (1e9 / procfs.TicksPerSecond)
}

// monotonic returns the time of the loop's clock. It may be called from any goroutine.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// A SurvivorsError refuses a start: programs of a predecessor still live, and its records can't be
// read.
type SurvivorsError struct {
	Survivors []Leftover
	Err       error // the cause
}

func (e *SurvivorsError) Error() string {
	return fmt.Sprintf("take over from the superd before: %v; its programs still run: %s", e.Err, leftoverText(e.Survivors))
}

// Unwrap returns the cause.
func (e *SurvivorsError) Unwrap() error { return e.Err }

// RefuseSurvivors returns a [SurvivorsError] with the cause if processes live that a predecessor in
// the runtime directory has started. fifoDir is the directory of their FIFOs. keeper is the pid of
// the keeper, 0 without one; conf may be nil.
func RefuseSurvivors(
	runtimeDir, fifoDir string, keeper int, conf *config.Config, cause error,
) error {
	traces, err := findTraces(runtimeDir, 0)
	if err != nil {
		return errors.Join(cause, err)
	}
	check := claimCheck{fifoDir: fifoDir, keeper: keeper}
	if conf != nil {
		check.users = func(instance string) (users []string) {
			if p := conf.Program(programOf(instance)); p != nil && p.User != "" {
				users = append(users, p.User)
			}
			return users
		}
	}
	// Without both, a process of the program's user looks like a forgery: it is better to refuse
	// than start a program a second time.
	if conf != nil || keeper != 0 {
		traces = slices.DeleteFunc(traces, func(t trace) bool { return !check.believes(&t) })
	}
	if len(traces) == 0 {
		return nil
	}
	e := &SurvivorsError{Err: cause}
	for _, t := range traces {
		e.Survivors = append(e.Survivors, t.leftover())
	}
	return e
}
