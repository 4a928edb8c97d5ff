package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
)

// A target is a process that a direct shutdown ends: a child, or one known by a pidfd.
type target struct {
	pid        int
	pidfd      int // -1: a child
	leadsGroup bool
}

// living returns the live processes that superd has started, as far as the keeper knows.
func (a *directShutdown) living() (found []target) {
	own := os.Getpid()
	child := map[int]bool{}
	a.spared, a.unreadable = map[int]bool{}, 0
	dir, err := os.ReadDir("/proc")
	if err != nil {
		a.k.log.Error("keeper can't look for its children", "error", err)
	}
	for _, entry := range dir {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		s, err := procfs.ReadStat(pid)
		switch {
		case err != nil || s.Parent != own || s.Dead:
		case a.k.options.HadChildren && (s.Sleeps() || s.InExec):
			// Reading the environment of one that sleeps might block, and one in an exec has none.
			a.spared[pid] = true
			a.unreadable++
		case a.k.options.HadChildren && !isTagged(pid, a.runtimeDir):
			a.spared[pid] = true
		default:
			child[pid] = true
			found = append(found, target{pid, -1, s.Group == pid})
		}
	}
	for _, fd := range a.k.store.Files() {
		if pid := pidOf(fd); pid > 0 && !child[pid] {
			delete(a.spared, pid)
			found = append(found, target{pid, fd, false})
		}
	}
	return found
}

// signal sends a signal to the process. For a child that leads a process group it signals the
// group: its number can't have been reused.
func (p target) signal(sig syscall.Signal) {
	switch {
	case p.pidfd >= 0:
		err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
		// If a system call filter refuses that, use the pid, after another check.
		if (err == unix.ENOSYS || err == unix.EPERM) && pidOf(p.pidfd) == p.pid {
			unix.Kill(p.pid, sig)
		}
	case p.leadsGroup:
		unix.Kill(-p.pid, sig)
	default:
		unix.Kill(p.pid, sig)
	}
}

// pidOf returns the pid of a pidfd, 0 if the process has ended or the descriptor is of another
// kind.
//
// Source: pidfd_open(2); fdinfo has -1 once the process was reaped.
func pidOf(fd int) int {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(info)) {
		if value, is := strings.CutPrefix(line, "Pid:"); is {
			pid := number(strings.TrimSpace(value))
			if s, err := procfs.ReadStat(pid); pid <= 0 || err != nil || s.Dead {
				return 0
			}
			return pid
		}
	}
	return 0
}
