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

	"superd/internal/rlimit"
)

// ChangeUser reports whether this process may change its user and groups.
func ChangeUser() bool { return has(unix.CAP_SETUID) && has(unix.CAP_SETGID) }

// Administer reports whether this process may make namespaces and change mounts.
func Administer() bool { return has(unix.CAP_SYS_ADMIN) }

// AdministerNetworks reports whether this process may configure network devices.
func AdministerNetworks() bool { return has(unix.CAP_NET_ADMIN) }

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

// SetLimit returns why this process may not set the hard limit of a resource to hard, nil if it
// may.
func SetLimit(resource rlimit.Resource, hard uint64) error {
	raise := has(unix.CAP_SYS_RESOURCE)
	if resource == rlimit.NoFile {
		if most := mostFiles(); hard > most {
			return fmt.Errorf("%s is more than fs.nr_open, %d, the most that this machine allows: lower it", showLimit(hard), most)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(int(resource), &limit); err != nil || raise || hard <= limit.Max {
		return nil
	}
	return fmt.Errorf("%s is above the hard limit, %d, which only root (CAP_SYS_RESOURCE) may raise: lower it, or raise superd's own", showLimit(hard), limit.Max)
}

func showLimit(n uint64) string {
	if n == rlimit.Infinity {
		return "infinity"
	}
	return strconv.FormatUint(n, 10)
}

// mostFiles returns the upper bound of limits on open files.
func mostFiles() uint64 {
	data, err := os.ReadFile("/proc/sys/fs/nr_open")
	if err != nil {
		return math.MaxUint64
	}
	most, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return most
}
