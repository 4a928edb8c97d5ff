package sandbox

import "slices"

// capabilities are the names of all capabilities; the index of each is its number.
//
// Source: capabilities(7), linux/capability.h.
var capabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE",
	"CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// Capabilities returns the names of all capabilities, by number.
func Capabilities() []string { return slices.Clone(capabilities) }

// A CapSet is a set of capabilities: bit n is number n.
type CapSet uint64

// AllCapabilities is the set of all capabilities, those that this table lacks included.
const AllCapabilities = ^CapSet(0)

// setOf returns the set of capabilities with these names, which are valid.
func setOf(names []string) (set CapSet) {
	for _, name := range names {
		if i := slices.Index(capabilities, name); i >= 0 {
			set |= 1 << i
		}
	}
	return set
}

// Has reports whether the capability with that number is in the set.
func (s CapSet) Has(number int) bool { return s>>number&1 != 0 }

// Without returns the set without the capabilities of these names.
func (s CapSet) Without(names ...string) CapSet { return s &^ setOf(names) }
