package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

// A UnitCgroup is the cgroup that systemd has given to the unit of superd, seen by a command of that unit.
type UnitCgroup struct{ dir string }

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
	switch filepath.Base(cgroup) {
	case ".control", leafName: // see systemd's CGROUP_DELEGATION.md
		dir, cgroup = filepath.Dir(dir), filepath.Dir(cgroup)
	}
	if !strings.HasSuffix(cgroup, ".service") {
		return nil, fmt.Errorf("find the unit's cgroup: %s is not one of a service", cgroup)
	}
	return &UnitCgroup{dir}, nil
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
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left, opened := 0, map[int]*pidfd.Process{}
		for _, pid := range pidsIn(u.dir) {
			if s, err := readStat(pid); pid == os.Getpid() || err != nil || s.dead {
				continue
			}
			left++
			seen[pid] = true
			if p, err := pidfd.Open(pid); err == nil {
				opened[pid] = p
			}
		}
		for _, pid := range pidsIn(u.dir) { // whoever has got a pid since the first look is not in the cgroup
			if p := opened[pid]; p != nil {
				p.Signal(unix.SIGKILL)
			}
		}
		for _, p := range opened {
			p.Close()
		}
		if left == 0 {
			return len(seen), nil
		}
		if time.Now().After(deadline) {
			return len(seen), fmt.Errorf("end what is left in %s: %d processes live %v after SIGKILL", u.dir, left, patience)
		}
	}
}
