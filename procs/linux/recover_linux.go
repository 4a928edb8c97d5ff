package linux

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/internal/syscalls"
	"superd/internal/workers"
	"superd/logs/pipe"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/proctree"
	"superd/procs/notify"
	"superd/procs/pty"
)

// Adopt implements [host.Host].
func (k *Host) Adopt(all []*host.RecoveredProcess) {
	workers.Each(len(all), func(i int) { k.adopt(all[i]) })
	if k.cgroups != nil {
		k.cgroups.Adopted()
	}
}

func (k *Host) adopt(a *host.RecoveredProcess) {
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
		if err := tree.Adopt(a); err != nil {
			k.log.Warn("limits not applied until the next start", "instance", a.Instance, "error", err)
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
func (k *Host) adoptOutput(a *host.RecoveredProcess, o *host.RecoveredOutput) (int, error) {
	if o.ReadFD >= 0 {
		if isFIFO(o.ReadFD) || pty.IsMaster(o.ReadFD) {
			return o.ReadFD, nil
		}
		closeInherited(o.ReadFD)
	}
	fd, err := pipe.AdoptFIFO(o.FIFO)
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
		fd, e := syscalls.RetryInt(func() (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
		if e == nil && isFIFO(fd) && !a.Found.(*pidfd.Process).Gone() {
			k.log.Warn("FIFO not at its path: opened through the program", "instance", a.Instance, "error", err)
			return fd, nil
		}
		closeInherited(fd)
	}
	return -1, err
}

// adoptNotify makes a notify socket in place of one that is closed. Messages in the old one are
// lost.
func (k *Host) adoptNotify(a *host.RecoveredProcess) int {
	fd, err := notify.Open(a.NotifySocket)
	if err != nil {
		k.log.Error("notifications not received", "instance", a.Instance, "error", err)
	}
	return fd
}

// adoptReady returns a read end of the process's readiness pipe.
func (k *Host) adoptReady(a *host.RecoveredProcess) int {
	path := filepath.Join("/proc", strconv.Itoa(a.Process.Pid), "fd", strconv.Itoa(a.ReadyNumber))
	fd, err := syscalls.RetryInt(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) })
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

// Search implements [host.Host]. It reads the environment of every process.
func (k *Host) Search(lookup []*host.LookupRequest, known map[string]bool, users func(string) []string) ([]host.Leftover, error) {
	wanted := map[string]*host.LookupRequest{}
	since := uint64(math.MaxUint64) // later than any start
	for _, w := range lookup {
		wanted[w.Run] = w
		since = min(since, earliest(w))
	}
	traces, err := proctree.FindTagged(k.runtimeDir, since)
	if err != nil {
		return nil, err
	}
	check := claimCheck{fifoDir: k.fifoDir, keeper: k.keeper, users: users}
	var leftovers, liars []host.Leftover
	leaders := map[*host.LookupRequest][]*proctree.TaggedProcess{}
	runs := map[string][]*proctree.TaggedProcess{} // leftover processes by run
	for i := range traces {
		t := &traces[i]
		w := wanted[t.Run]
		switch {
		case t.Probe: // it is killed when its instance has been recovered
		case w != nil && t.Leads() && t.Stat.Start >= earliest(w):
			leaders[w] = append(leaders[w], t)
		case known[t.Run]:
		case !check.believes(t):
			liars = append(liars, t.Leftover())
		default:
			leftovers = append(leftovers, t.Leftover())
			runs[t.Run] = append(runs[t.Run], t)
		}
	}
	if len(liars) > 0 {
		k.log.Warn("processes with superd's tags belong to other users: left running",
			"processes", host.LeftoverText(liars))
	}
	if err := markEldest(leftovers, runs); err != nil {
		return nil, err
	}
	for _, w := range lookup {
		found := leaders[w]
		if first := proctree.Eldest(found); first != nil {
			if w.Found, err = identify(&first.Stat); err == nil || errors.Is(err, pidfd.ErrGone) {
				continue
			}
			return nil, err
		}
		for _, t := range found {
			leftovers = append(leftovers, t.Leftover())
		}
	}
	return leftovers, nil
}

// markEldest sets Eldest of the leftover processes that are the eldest session leaders of their
// runs.
func markEldest(leftovers []host.Leftover, runs map[string][]*proctree.TaggedProcess) error {
	for i := range leftovers {
		leftover := &leftovers[i]
		first := proctree.Eldest(slices.DeleteFunc(slices.Clone(runs[leftover.Run]), func(t *proctree.TaggedProcess) bool { return !t.Leads() }))
		if first == nil || first.Stat.Pid != leftover.Pid {
			continue
		}
		id, err := identify(&first.Stat)
		if err != nil && !errors.Is(err, pidfd.ErrGone) {
			return err
		}
		leftover.Eldest = id
	}
	return nil
}

// Lives implements [host.Host].
func (k *Host) Lives(id pidfd.Identity) bool {
	p, err := pidfd.Reopen(id)
	if err != nil {
		return !errors.Is(err, pidfd.ErrGone)
	}
	p.Close()
	return true
}

// earliest returns the least start time that fits the request, in clock ticks since boot: the
// kernel's rounding may differ from the clock's.
func earliest(w *host.LookupRequest) uint64 { return max(w.After, 1) - 1 }

// identify returns the identity of the process that s was read from.
func identify(s *procfs.Stat) (pidfd.Identity, error) {
	p, err := procfs.OpenProcess(s)
	if err != nil {
		return pidfd.Identity{}, err
	}
	defer p.Close()
	return p.Identity()
}

// A SurvivorsError refuses a start: programs of a predecessor still live, and its records can't be
// read.
type SurvivorsError struct {
	Survivors []host.Leftover
	Err       error // the cause
}

func (e *SurvivorsError) Error() string {
	return fmt.Sprintf("take over from the predecessor: %v; its programs still run: %s", e.Err, host.LeftoverText(e.Survivors))
}

// Unwrap returns the cause.
func (e *SurvivorsError) Unwrap() error { return e.Err }

// RefuseSurvivors returns a [SurvivorsError] with the cause if processes live that a predecessor in
// the runtime directory has started. fifoDir is the directory of their FIFOs. keeper is the pid of
// the keeper, 0 without one. users returns the users as which an instance's program may run; nil:
// no configuration is known.
func RefuseSurvivors(
	runtimeDir, fifoDir string, keeper int, users func(instance string) []string, cause error,
) error {
	traces, err := proctree.FindTagged(runtimeDir, 0)
	if err != nil {
		return errors.Join(cause, err)
	}
	check := claimCheck{fifoDir: fifoDir, keeper: keeper, users: users}
	// Without both, a process of the program's user looks like a forgery: it is better to refuse
	// than start a program a second time.
	if users != nil || keeper != 0 {
		traces = slices.DeleteFunc(traces, func(t proctree.TaggedProcess) bool { return !check.believes(&t) })
	}
	if len(traces) == 0 {
		return nil
	}
	e := &SurvivorsError{Err: cause}
	for _, t := range traces {
		e.Survivors = append(e.Survivors, t.Leftover())
	}
	return e
}
