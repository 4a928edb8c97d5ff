package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// A UnitCgroup is the cgroup that systemd has given to the unit of superd, seen by a command of that unit.
type UnitCgroup struct {
	dir string
	own string // the cgroup of this process: dir, or one in it
}

// OwnUnitCgroup returns the cgroup of the unit that this process is a command of: its own, or the one above if systemd has put it aside.
func OwnUnitCgroup() (*UnitCgroup, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	dir, cgroup, err := findCgroup(string(mounts), string(membership))
	if err != nil {
		return nil, fmt.Errorf("find the unit's cgroup: %w", err)
	}
	own := dir
	switch filepath.Base(cgroup) {
	case ".control", leafName: // see systemd's CGROUP_DELEGATION.md
		dir, cgroup = filepath.Dir(dir), filepath.Dir(cgroup)
	}
	if !strings.HasSuffix(cgroup, ".service") {
		return nil, fmt.Errorf("find the unit's cgroup: %s is not one of a service", cgroup)
	}
	return &UnitCgroup{dir, own}, nil
}

// DisableControllers has no controller handed down any more. Otherwise systemd could not start a process in the cgroup while there are
// others below it: see [cgroups].
func (u *UnitCgroup) DisableControllers() error { return disableControllers(u.dir) }

func disableControllers(dir string) error {
	var errs []error
	for _, nested := range cgroupsIn(dir) {
		errs = append(errs, disableControllers(nested)) // those below first: the kernel insists
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	text, err := os.ReadFile(control)
	if errors.Is(err, os.ErrNotExist) {
		return errors.Join(errs...) // it has gone meanwhile
	}
	for controller := range strings.FieldsSeq(string(text)) {
		errs = append(errs, writeFile(control, "-"+controller))
	}
	return errors.Join(append(errs, err)...)
}

// Kill ends every process in the cgroup and below it with SIGKILL, this one excepted, and returns how many there were. The error tells
// that some still live after patience.
func (u *UnitCgroup) Kill(patience time.Duration) (killed int, err error) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(patience); u.inhabited(u.dir); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return len(seen), fmt.Errorf("end what is left in %s: processes live %v after SIGKILL", u.dir, patience)
		}
		opened := map[int]*pidfd.Process{}
		for _, pid := range pidsIn(u.dir) {
			if p, err := pidfd.Open(pid); err == nil && pid != os.Getpid() {
				opened[pid] = p
			}
		}
		for _, pid := range pidsIn(u.dir) { // whoever has got a pid since the first look is not in the cgroup
			if p := opened[pid]; p != nil {
				p.Signal(unix.SIGKILL)
				seen[pid] = true
			}
		}
		for _, p := range opened {
			p.Close()
		}
	}
	return len(seen), nil
}

// inhabited reports whether a process lives in the cgroup dir or below it, this one excepted.
//
// Where this one is, too, the kernel's list tells. While it is read, whoever brings forth a child is in it, or the child is, which comes behind him; he who
// is in it may have ended when he is looked at, so that only a list that names nobody else says that nobody is there.
func (u *UnitCgroup) inhabited(dir string) bool {
	if u.own != dir && !strings.HasPrefix(u.own, dir+"/") {
		lives, _ := populated(dir)
		return lives
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return true
		}
	}
	return slices.ContainsFunc(cgroupsIn(dir), u.inhabited)
}
