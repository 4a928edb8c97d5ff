// Package privilege determines what this process may do before it tries, so that a refusal can be
// explained. The kernel may still refuse what capabilities allow, as in a user namespace.
//
// Source: man 7 capabilities, man 2 setrlimit, man 7 user_namespaces.
package privilege

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ChangeUser reports whether this process may change its user and groups.
func ChangeUser() bool { return has(unix.CAP_SETUID) && has(unix.CAP_SETGID) }

// ManyProcesses reports whether this process is exempt from the limit on processes (RLIMIT_NPROC).
func ManyProcesses() bool {
	return os.Getuid() == 0 || has(unix.CAP_SYS_RESOURCE) || has(unix.CAP_SYS_ADMIN)
}

// Ambient reports whether this process passes capabilities to programs it executes, even for users
// other than root.
func Ambient() bool {
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		set, _, errno := unix.Syscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, capability, 0, 0, 0)
		if errno == 0 && set == 1 {
			return true
		}
	}
	return false
}

// has reports whether a capability is effective.
func has(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return false
	}
	return sets[capability/32].Effective>>(capability%32)&1 != 0
}

// SetLimit returns why this process may not set the hard limit of a resource (such as
// unix.RLIMIT_NOFILE) to value, nil if it may.
func SetLimit(resource int, value int64) error {
	raise := has(unix.CAP_SYS_RESOURCE)
	if resource == unix.RLIMIT_NOFILE {
		if most := mostFiles(); value > most {
			return fmt.Errorf("%d is more than fs.nr_open, %d, the most that this machine allows: lower it", value, most)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil || raise || limit.Max == unix.RLIM_INFINITY || uint64(value) <= limit.Max {
		return nil
	}
	return fmt.Errorf("%d is above the hard limit, %d, which only root (CAP_SYS_RESOURCE) may raise: lower it, or raise superd's own", value, limit.Max)
}

// mostFiles returns the upper bound of limits on open files.
func mostFiles() int64 {
	data, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return math.MaxInt64
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return most
}
