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

	"superd/account"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/notify"
)

// Adopt implements [System].
func (k *Kernel) Adopt(all []*Adoptee) {
	inParallel(len(all), func(i int) { k.adopt(all[i]) })
	if k.cgroups != nil {
		k.cgroups.left = nil // who comes later looks for himself
	}
}

func (k *Kernel) adopt(a *Adoptee) {
	if a.Process != (pidfd.Identity{}) {
		p, err := reopen(a.Process, a.PidFD)
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
	a.Ended = a.Found == nil || a.Found.Ended() // looked at when the read ends are held
	if tree, ok := a.Tree.(kernelTree); ok && a.Err == nil {
		if err := tree.adopt(a); err != nil {
			k.log.Warn("limits not in force until the next start", "instance", a.Instance, "error", err)
		}
	}
}

// reopen returns the process: from its pidfd, which is then owned, or by its identity.
func reopen(id pidfd.Identity, fd int) (*pidfd.Process, error) {
	if fd >= 0 {
		p, err := pidfd.Take(fd, id)
		if err == nil || errors.Is(err, pidfd.ErrGone) {
			return p, err
		}
	}
	return pidfd.Reopen(id)
}

// adoptOutput returns the read end of a FIFO of the instance: the one that was kept, or that of the path, or, where something else lies there, by the
// way of the process that writes to it.
func (k *Kernel) adoptOutput(a *Adoptee, o *AdoptedOutput) (int, error) {
	if o.ReadFD >= 0 {
		if isFIFO(o.ReadFD) {
			return o.ReadFD, nil
		}
		closeInherited(o.ReadFD)
	}
	fd, err := logs.AdoptFIFO(o.FIFO)
	if a.Found == nil && errors.Is(err, os.ErrNotExist) {
		return -1, nil // a shutdown has removed it; the next start makes another
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

// adoptNotify makes a notify socket in the place of one that nobody has any more. What was in that is lost.
func (k *Kernel) adoptNotify(a *Adoptee) int {
	id, err := lookUpRunAs(a.Program, account.System())
	if err == nil {
		uid, gid := id.owner()
		var fd int
		if fd, err = notify.Open(a.NotifySocket, uid, gid); err == nil {
			return fd
		}
	}
	k.log.Error("notifications are not heard", "instance", a.Instance, "error", err)
	return -1
}

// adoptReady returns a reading end of the pipe on which the process tells that it is ready.
func (k *Kernel) adoptReady(a *Adoptee) int {
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

// A trace is a process that an earlier superd of the same runtime directory has started, at whatever remove.
type trace struct {
	stat procStat
	marks
}

// Search implements [System]. It looks at the environment of every process there is.
func (k *Kernel) Search(sought []*Sought, known map[string]bool) ([]Stray, error) {
	wanted := map[string]*Sought{}
	since := uint64(math.MaxUint64) // nobody is
	for _, w := range sought {
		wanted[w.Run] = w
		since = min(since, w.earliest())
	}
	traces, err := findTraces(k.runtimeDir, since)
	if err != nil {
		return nil, err
	}
	var strays []Stray
	leaders := map[*Sought][]*trace{}
	for i := range traces {
		t := &traces[i]
		w := wanted[t.run]
		switch {
		case t.probe: // it is killed, see [probeSite]
		case w != nil && t.stat.session == t.stat.pid && t.stat.start >= w.earliest(): // as everyone is whom superd starts
			leaders[w] = append(leaders[w], t)
		case !known[t.run]:
			strays = append(strays, t.stray())
		}
	}
	for _, w := range sought {
		found := leaders[w]
		if first := eldest(found); first != nil {
			if w.Found, err = identify(&first.stat); err == nil || errors.Is(err, pidfd.ErrGone) {
				continue
			}
			return nil, err
		}
		for _, t := range found {
			strays = append(strays, t.stray())
		}
	}
	return strays, nil
}

// eldest returns the one of whom all others descend, nil where there is none.
func eldest(all []*trace) *trace {
	for _, t := range all {
		if !slices.ContainsFunc(all, func(other *trace) bool { return other != t && !descends(other.stat, &t.stat) }) {
			return t
		}
	}
	return nil
}

// descends reports whether ancestor is one of s.
func descends(s procStat, ancestor *procStat) bool {
	for range maxAncestors {
		parent, err := readStat(s.parent)
		if err != nil || parent.start > s.start {
			return false
		}
		if parent.key() == ancestor.key() {
			return true
		}
		s = parent
	}
	return false
}

// earliest is the least start time of whom w seeks, in clock ticks since boot: the kernel may round it otherwise than the clock.
func (w *Sought) earliest() uint64 { return max(w.After, 1) - 1 }

func (t *trace) stray() Stray {
	return Stray{Pid: t.stat.pid, Command: t.stat.command, Instance: t.instance, Run: t.run}
}

// identify returns the identity of the process that s was read from.
func identify(s *procStat) (pidfd.Identity, error) {
	p, err := openProcess(s)
	if err != nil {
		return pidfd.Identity{}, err
	}
	defer p.Close()
	return p.Identity()
}

// birthPatience bounds how long it is waited for one who may have been sought.
const birthPatience = 2 * time.Second

// findTraces looks through /proc for processes that carry an invocation id and the runtime directory in their environment. It waits for those who can't tell
// theirs, longest for one who leads a session and is not older than since, in clock ticks since boot.
func findTraces(runtimeDir string, since uint64) ([]trace, error) {
	pids, err := allPids()
	if err != nil {
		return nil, err
	}
	all, errs := make([]trace, len(pids)), make([]error, len(pids))
	mute := make([]bool, len(pids))
	ask := func(i int) {
		s, err := readStat(pids[i])
		if err != nil || s.dead || s.pid == os.Getpid() {
			errs[i] = shortage(err)
			return
		}
		m, told, err := s.readMarks()
		all[i], mute[i], errs[i] = trace{s, m}, !told, err
	}
	inParallel(len(pids), ask)
	for began, waits := time.Now(), true; waits; {
		waits = false
		for i, is := range mute {
			age := time.Since(began)
			if s := &all[i].stat; !is || age > birthPatience || age > askPatience && (s.session != s.pid || s.start < since) {
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

// bootTicks returns the time since boot, in clock ticks, as /proc shows start times.
func bootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano()) / (1e9 / userHz)
}

// monotonic returns the time of the loop's clock. From any goroutine.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// A SurvivorsError is a start refused because programs of an earlier superd still live, and what that one has left can't be read.
type SurvivorsError struct {
	Survivors []Stray
	Err       error // why
}

func (e *SurvivorsError) Error() string {
	return fmt.Sprintf("take over from the superd before: %v; its programs still run: %s", e.Err, strayText(e.Survivors))
}

// Unwrap returns the cause.
func (e *SurvivorsError) Unwrap() error { return e.Err }

// RefuseSurvivors returns a [SurvivorsError] with the cause if processes live that an earlier superd of the runtime directory has started.
func RefuseSurvivors(runtimeDir string, cause error) error {
	traces, err := findTraces(runtimeDir, 0)
	if err != nil {
		return errors.Join(cause, err)
	}
	if len(traces) == 0 {
		return nil
	}
	e := &SurvivorsError{Err: cause}
	for _, t := range traces {
		e.Survivors = append(e.Survivors, t.stray())
	}
	return e
}

// BootID tells this boot of the machine from all others.
func BootID() (string, error) {
	var buf [64]byte
	const path = "/proc/sys/kernel/random/boot_id"
	n, err := readSmall(path, buf[:])
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	for n > 0 && buf[n-1] == '\n' {
		n--
	}
	return string(buf[:n]), nil
}
