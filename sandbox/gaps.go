package sandbox

import (
	"slices"
	"strings"
)

// A Gap is something that an attacker in a program could use, and that a key would take away.
type Gap struct {
	Text   string // what the program can do
	Remedy string // key and value
}

// strong are the capabilities with which a process can become root, or read or change any file.
var strong = []string{
	"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_BPF", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_CHOWN", "CAP_FOWNER", "CAP_MKNOD",
}

// Gaps returns what a program can do that most services do not need, the worst first. s may be nil.
// root: the program has no user of its own.
func Gaps(s *Settings, root bool) (gaps []Gap) {
	if s == nil {
		s = new(Settings)
	}
	when := func(is bool, text, remedy string) {
		if is {
			gaps = append(gaps, Gap{text, remedy})
		}
	}
	when(root, "runs as root, if superd does", `user = "NAME"`)
	gaps = append(gaps, s.gapsOfCapabilities()...)
	when(!s.gainsNothing(), "can gain rights by set-user-ID binaries", "sandbox.no_new_privileges = true")
	when(s.Syscalls.Allow == nil, "can make system calls that services do not make",
		`sandbox.syscalls.allow = ["@system-service"]`)
	when(s.ProtectSystem != ProtectStrict && s.Landlock.Write == nil, "can write wherever its user may",
		`sandbox.protect_system = "strict"`)
	gaps = append(gaps, s.gapsOfKernel(root)...)
	when(!s.hides("/home") && s.Landlock.Read == nil, "can read what its user may in /home and /root",
		`sandbox.inaccessible = ["-/home", "-/root"]`)
	when(!s.PrivateTmp, "shares /tmp with other users", "sandbox.private_tmp = true")
	when(!s.PrivateDevices, "sees all devices", "sandbox.private_devices = true")
	when(s.AddressFamilies == nil, "can make sockets of any kind, such as those of packets and netlink",
		`sandbox.address_families = ["AF_UNIX", "AF_INET", "AF_INET6"]`)
	when(!s.PrivateNetwork && s.Landlock.ConnectTCP == nil, "can connect to any TCP port",
		"sandbox.landlock.connect_tcp = [PORT], or sandbox.private_network = true")
	when(!s.DenyWriteExecute, "can execute memory that it has written",
		"sandbox.deny_write_execute = true, unless it compiles code while it runs")
	return gaps
}

// gapsOfCapabilities returns which strong capabilities the program may have.
func (s *Settings) gapsOfCapabilities() []Gap {
	if s.Capabilities == nil {
		return []Gap{{"may have every capability", "sandbox.capabilities = []"}}
	}
	kept := slices.DeleteFunc(slices.Clone(s.Capabilities), func(name string) bool {
		return !slices.Contains(strong, name)
	})
	if len(kept) == 0 {
		return nil
	}
	return []Gap{{"may have " + strings.Join(kept, ", "), "sandbox.capabilities without it, if it can do without"}}
}

// gapsOfKernel returns what a program that is root can change without capabilities.
func (s *Settings) gapsOfKernel(root bool) (gaps []Gap) {
	switch {
	case !root || s.Landlock.Write != nil:
		return nil
	case s.ProtectSystem != ProtectStrict:
		return []Gap{{"can change settings of the kernel, in /proc/sys and /sys", `sandbox.protect_system = "strict"`}}
	}
	for _, path := range kernelPaths {
		if s.opens(path) {
			gaps = append(gaps, Gap{"can change settings of the kernel, in " + path, "sandbox.read_write without it, if it can do without"})
		}
	}
	return gaps
}

// gainsNothing reports whether the program has no_new_privs.
func (s *Settings) gainsNothing() bool {
	if s.NoNewPrivileges != nil {
		return *s.NoNewPrivileges
	}
	return s.Landlock.Enabled() || s.filters()
}

// hides reports whether a path is inaccessible, or the program has a root of its own.
func (s *Settings) hides(path string) bool {
	return s.RootDirectory != "" || slices.ContainsFunc(s.Inaccessible, func(hidden string) bool {
		return strings.TrimPrefix(hidden, "-") == path
	})
}
