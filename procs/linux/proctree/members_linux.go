package proctree

import (
	"errors"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
	"superd/pidfd"
	"superd/procs/host"
)

// MemberLimit returns how many processes one look opens at most: a tree may have more than superd
// may have descriptors. The next look finds the others.
func MemberLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int(min(limit.Cur/4, 4096))
}

// openMembers opens the processes, as many as descriptors allow. It skips processes that have ended
// meanwhile.
func openMembers(stats []procfs.Stat) ([]host.Member, error) {
	var members []host.Member
	for i := range stats[:min(len(stats), MemberLimit())] {
		s := &stats[i]
		p, err := procfs.OpenProcess(s)
		switch {
		case errors.Is(err, pidfd.ErrGone):
		case err != nil && len(members) > 0:
			return members, nil
		case err != nil:
			return nil, err
		default:
			members = append(members, host.Member{Process: p, Start: s.Start, Group: s.Group, Parent: s.Parent, Command: s.Command})
		}
	}
	return members, nil
}

// keyOf returns the key of the process that s was read from.
func keyOf(s *procfs.Stat) host.ProcessKey { return host.ProcessKey{Pid: s.Pid, Start: s.Start} }

// isAlive reports whether the process exists and has not ended.
func isAlive(id host.ProcessKey) bool {
	s, err := procfs.ReadStat(id.Pid)
	return err == nil && keyOf(&s) == id && !s.Dead
}
