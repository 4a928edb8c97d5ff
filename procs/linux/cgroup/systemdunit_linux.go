package cgroup

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

// A Unit is the cgroup of superd's systemd unit, as seen by a command of that unit.
type Unit struct {
	dir string
	own string // cgroup of this process: dir, or one below it
}

// OwnUnit returns the cgroup of the unit that this process is a command of: its own cgroup,
// or the parent if systemd has put this process into a child cgroup.
func OwnUnit() (*Unit, error) {
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
	return &Unit{dir, own}, nil
}

// DisableControllers disables all controllers for child cgroups. Otherwise systemd could not start
// a process in the cgroup while there are others below it: see [Manager].
func (u *Unit) DisableControllers() error { return disableControllers(u.dir) }

func disableControllers(dir string) error {
	var errs []error
	for _, nested := range cgroupsIn(dir) {
		errs = append(errs, disableControllers(nested)) // descendants first, as the kernel requires
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	text, err := os.ReadFile(control)
	if errors.Is(err, os.ErrNotExist) {
		return errors.Join(errs...) // it was removed meanwhile
	}
	for controller := range strings.FieldsSeq(string(text)) {
		errs = append(errs, writeFile(control, "-"+controller))
	}
	return errors.Join(append(errs, err)...)
}

// Kill sends SIGKILL to all processes in the cgroup and below it, except this one, and returns how
// many there were. It returns an error if some still live after patience.
func (u *Unit) Kill(patience time.Duration) (killed int, err error) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(patience); u.inhabited(u.dir); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			return len(seen), fmt.Errorf("end leftover processes in %s: still alive %v after SIGKILL", u.dir, patience)
		}
		opened := map[int]*pidfd.Process{}
		for _, pid := range pidsIn(u.dir) {
			if p, err := pidfd.Open(pid); err == nil && pid != os.Getpid() {
				opened[pid] = p
			}
		}
		// a pid reused since the first list is not in the cgroup
		for _, pid := range pidsIn(u.dir) {
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

// inhabited reports whether a process other than this one lives in the cgroup dir or below it.
//
// For a cgroup that holds this process it reads the kernel's list. If a listed process forks during
// the read, the list has it or its child, which comes later. A listed process may have ended by
// now. So only a list without other processes proves that there are none.
func (u *Unit) inhabited(dir string) bool {
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
