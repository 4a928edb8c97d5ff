package systemd

import (
	"slices"
	"strings"
)

// sandboxKey imports the keys that take something from a program, and reports whether a is one.
func (s *service) sandboxKey(a assignment) bool {
	t := s.table
	on := boolean(a.value)
	switch a.key {
	case "NoNewPrivileges":
		t.Set("sandbox.no_new_privileges", on)
	case "CapabilityBoundingSet":
		list := words(a.value)
		if len(list) == 0 {
			t.Set("sandbox.capabilities", []string{})
			return true
		}
		if strings.HasPrefix(list[0], "~") {
			list[0] = strings.TrimPrefix(list[0], "~") // "" removes nothing
			before, set := t.Get("sandbox.capabilities").([]string)
			if !set {
				before = capabilities
			}
			t.Set("sandbox.capabilities", without(before, list))
			return true
		}
		t.Append("sandbox.capabilities", list...)
	case "AmbientCapabilities":
		t.Append("sandbox.ambient_capabilities", words(a.value)...)
	case "ProtectSystem":
		switch {
		case a.value == "full" || a.value == "strict":
			t.Set("sandbox.protect_system", a.value)
		case on:
			t.Set("sandbox.protect_system", true)
		}
	case "ProtectHome":
		switch {
		case a.value == "read-only":
			t.Append("sandbox.read_only", homes...)
		case a.value == "tmpfs" || on:
			t.Append("sandbox.inaccessible", homes...)
		}
	case "ReadOnlyPaths", "ReadOnlyDirectories":
		t.Append("sandbox.read_only", paths(a.value)...)
	case "ReadWritePaths", "ReadWriteDirectories":
		t.Append("sandbox.read_write", paths(a.value)...)
	case "InaccessiblePaths", "InaccessibleDirectories":
		t.Append("sandbox.inaccessible", paths(a.value)...)
	case "PrivateTmp":
		t.Set("sandbox.private_tmp", on)
	case "PrivateDevices":
		t.Set("sandbox.private_devices", on)
	case "PrivateNetwork":
		t.Set("sandbox.private_network", on)
	case "RootDirectory":
		t.Set("sandbox.root_directory", a.value)
	case "MemoryDenyWriteExecute":
		t.Set("sandbox.deny_write_execute", on)
	case "RestrictAddressFamilies":
		list := words(a.value)
		switch {
		case a.value == "none":
			t.Set("sandbox.address_families", []string{})
		case len(list) > 0 && strings.HasPrefix(list[0], "~"):
			s.note(a, "superd lists what is allowed, not what is refused: set sandbox.address_families")
		default:
			t.Append("sandbox.address_families", list...)
		}
	case "SystemCallFilter":
		s.syscalls(a)
	case "SystemCallErrorNumber":
		if slices.Contains([]string{"EPERM", "EACCES", "ENOSYS", "EINVAL", "ENOENT", "EOPNOTSUPP", "EUCLEAN"}, a.value) {
			t.Set("sandbox.syscalls.errno", a.value)
		} else {
			s.note(a, "superd's refused calls can't fail with %s", a.value)
		}
	case "SystemCallArchitectures":
		if a.value != "native" || s.get("Service", "SystemCallFilter") == "" {
			s.note(a, "calls of other architectures are refused with sandbox.syscalls.allow only")
		}
	case "ProtectControlGroups":
		if on {
			t.Append("sandbox.read_only", "/sys/fs/cgroup")
		}
	case "ProtectKernelLogs":
		if on {
			t.Append("sandbox.inaccessible", "-/dev/kmsg", "-/proc/kmsg")
		}
	case "ProtectKernelTunables", "ProtectKernelModules", "ProtectClock", "ProtectHostname", "ProtectProc",
		"ProcSubset", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "LockPersonality",
		"RemoveIPC", "PrivateUsers", "PrivateMounts", "PrivateIPC", "MountFlags", "MountAPIVFS", "DevicePolicy",
		"DeviceAllow", "BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "ExecPaths", "NoExecPaths",
		"SecureBits", "KeyringMode", "AppArmorProfile", "SELinuxContext", "NetworkNamespacePath",
		"LoadCredential", "SetCredential", "RestrictFileSystems", "SystemCallLog":
		if a.value != "no" && a.value != "false" && a.value != "default" {
			s.note(a, "%s", missing(a.key))
		}
	default:
		return false
	}
	return true
}

// missing says what comes near to a key of systemd that the sandbox does not have.
func missing(key string) string {
	near := map[string]string{
		"ProtectKernelTunables": `sandbox.protect_system = "strict" makes /proc/sys and /sys read-only`,
		"ProtectKernelModules":  "sandbox.capabilities without CAP_SYS_MODULE",
		"ProtectClock":          "sandbox.capabilities without CAP_SYS_TIME",
		"ProtectHostname":       "sandbox.syscalls.deny with sethostname and setdomainname",
		"RestrictRealtime":      "sandbox.syscalls.deny with sched_setscheduler",
		"ExecPaths":             "sandbox.landlock.execute",
		"NoExecPaths":           "sandbox.landlock.execute",
		"PrivateMounts":         "any path in sandbox gives it mounts of its own",
	}
	if text, known := near[key]; known {
		return "superd has no counterpart; near is: " + text
	}
	return "superd has no counterpart"
}

var homes = []string{"-/home", "-/root", "-/run/user"}

// paths returns paths for the sandbox: superd knows the prefix "-", and not "+".
func paths(value string) []string {
	list := words(value)
	for i, p := range list {
		optional := strings.HasPrefix(p, "-") || strings.HasPrefix(p, "+-")
		p = strings.TrimLeft(p, "-+")
		if optional {
			p = "-" + p
		}
		list[i] = p
	}
	return list
}

func without(all, removed []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(c string) bool { return slices.Contains(removed, c) })
}

// syscalls imports one SystemCallFilter=. What stands behind ~ is refused.
func (s *service) syscalls(a assignment) {
	list, denied := words(a.value), false
	if len(list) > 0 && strings.HasPrefix(list[0], "~") {
		list[0], denied = strings.TrimPrefix(list[0], "~"), true
	}
	list = without(list, []string{""})
	if i := slices.IndexFunc(list, func(call string) bool { return strings.Contains(call, ":") }); i >= 0 {
		call, errno, _ := strings.Cut(list[i], ":")
		s.note(a, "superd has one error for all refused calls, not %s for %s", errno, call)
		for i := range list {
			list[i], _, _ = strings.Cut(list[i], ":")
		}
	}
	key := "sandbox.syscalls.allow"
	if denied {
		key = "sandbox.syscalls.deny"
	}
	s.table.Append(key, list...)
	if s.get("Service", "SystemCallErrorNumber") == "" {
		s.table.Set("sandbox.syscalls.errno", "kill")
	}
}

// capabilities are those of Linux 6.1.
var capabilities = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID
	CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE
	CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE
	CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT
	CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE
	CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG
	CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)
