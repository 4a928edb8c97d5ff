package privilege

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Attributes says which attributes this process may give to a process that it starts.
//
// Source: setpriority(2), sched(7), ioprio_set(2), proc_pid_oom_score_adj(5).
type Attributes struct{}

// Nice returns why this process may not set the nice value n, nil if it may.
func (Attributes) Nice(n int) error {
	const offset = 20 // what the kernel adds to have no negative number
	kernels, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if own := offset - kernels; err != nil || n >= own || has(unix.CAP_SYS_NICE) || softLimit(unix.RLIMIT_NICE) >= uint64(offset-n) {
		return nil
	}
	return fmt.Errorf("%d is below superd's own nice value, %d, which only root (CAP_SYS_NICE) may do: raise it, or run superd as root, or with a limit (RLIMIT_NICE) of %d", n, offset-kernels, offset-n)
}

// RealTime returns why this process may not use a real-time policy with a priority.
func (Attributes) RealTime(priority int) error {
	if has(unix.CAP_SYS_NICE) || softLimit(unix.RLIMIT_RTPRIO) >= uint64(priority) {
		return nil
	}
	return fmt.Errorf("real-time priority %d needs root (CAP_SYS_NICE): choose another policy, or run superd as root, or with a limit (RLIMIT_RTPRIO) of %d", priority, priority)
}

// IORealTime returns why this process may not use the real-time class of I/O.
func (Attributes) IORealTime() error {
	if has(unix.CAP_SYS_NICE) || has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return fmt.Errorf("the class realtime needs root (CAP_SYS_NICE): choose best-effort, or run superd as root")
}

// OOMScoreAdj returns why this process may not set an oom_score_adj. It may set one below its own
// if it has had that, which is unknown here.
func (Attributes) OOMScoreAdj(n int) error {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil || has(unix.CAP_SYS_RESOURCE) {
		return nil
	}
	own, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n >= own {
		return nil
	}
	return fmt.Errorf("%d is below superd's own oom_score_adj, %d, which only root (CAP_SYS_RESOURCE) may do: raise it, or run superd as root, or with a lower one (systemd: OOMScoreAdjust=%d)", n, own, n)
}

// softLimit returns the soft limit of a resource, 0 if it is unknown.
func softLimit(resource int) uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return 0
	}
	return limit.Cur
}
