package config

import (
	"slices"
	"strings"

	"superd/config/codec"
	"superd/sandbox"
)

// sandboxKeys returns the keys of the table sandbox, in the order of the reference.
func sandboxKeys() []key {
	box := func(d *builder) *sandbox.Settings { return &d.sandbox }
	const ofStrings = "array of strings"
	return []key{
		bind("program", "sandbox.preset", codec.Choice(sandbox.PresetNone, sandbox.PresetStrict),
			func(d *builder) *sandbox.Preset { return &box(d).Preset },
			"`\"strict\"` sets the keys of `sandbox` that are not set to what fits most services. "+
				"See [Sandbox](#sandbox)."),
		bind("program", "sandbox.best_effort", codec.Boolean,
			func(d *builder) *bool { return &box(d).BestEffort },
			"Whether a key of `sandbox` that can't be enforced is a warning in the program's "+
				"status. If not, the start fails."),
		reading("see [Sandbox](#sandbox)", bind("program", "sandbox.no_new_privileges", codec.Optional(codec.Boolean),
			func(d *builder) **bool { return &box(d).NoNewPrivileges },
			"Whether no exec, such as of a set-user-ID binary, gives it further rights.")),
		reading("all", bind("program", "sandbox.capabilities", codec.Settable(codec.List(ofStrings, capability)),
			func(d *builder) *[]string { return &box(d).Capabilities },
			"The capabilities that it can have at all (the bounding set), even as root; `[]`: none. "+
				"It inherits none of superd's own.")),
		bind("program", "sandbox.ambient_capabilities", codec.List(ofStrings, capability),
			func(d *builder) *[]string { return &box(d).AmbientCapabilities },
			"Capabilities that it has although it is not root: `[\"CAP_NET_BIND_SERVICE\"]` for "+
				"ports below 1024."),
		bind("program", "sandbox.protect_system", protection,
			func(d *builder) *sandbox.Protection { return &box(d).ProtectSystem },
			"`true`: `/usr`, `/boot` and `/efi` are read-only; `\"full\"`: `/etc` as well; "+
				"`\"strict\"`: all but `/dev` and the part of `/proc` that does not "+
				"change the kernel."),
		bind("program", "sandbox.read_only", codec.List(ofStrings, codec.HostPath),
			func(d *builder) *[]string { return &box(d).ReadOnly },
			"Paths that are read-only with all that is below. One that begins with `-` may be "+
				"missing, here and in the next keys."),
		bind("program", "sandbox.read_write", codec.List(ofStrings, codec.PathInRoot),
			func(d *builder) *[]string { return &box(d).ReadWrite },
			"Paths below read-only ones that are as outside."),
		bind("program", "sandbox.inaccessible", codec.List(ofStrings, codec.PathInRoot),
			func(d *builder) *[]string { return &box(d).Inaccessible },
			"Paths that are empty and without rights."),
		bind("program", "sandbox.private_tmp", codec.Boolean,
			func(d *builder) *bool { return &box(d).PrivateTmp },
			"Whether each run has a `/tmp` and a `/var/tmp` of its own, removed at its end."),
		bind("program", "sandbox.private_devices", codec.Boolean,
			func(d *builder) *bool { return &box(d).PrivateDevices },
			"Whether `/dev` has harmless devices only, such as `/dev/null`. The program can't make "+
				"others: it lacks `CAP_MKNOD` and `CAP_SYS_RAWIO`."),
		bind("program", "sandbox.private_network", codec.Boolean,
			func(d *builder) *bool { return &box(d).PrivateNetwork },
			"Whether it has a network with a loopback device only."),
		bind("program", "sandbox.root_directory", codec.RootPath,
			func(d *builder) *string { return &box(d).RootDirectory },
			"The directory that the program sees as `/`. `/proc`, `/sys` and `/dev` are visible in "+
				"it. `command` and `directory` are paths in it."),
		reading("all", bind("program", "sandbox.landlock.read", codec.Settable(codec.List(ofStrings, codec.HostPath)),
			func(d *builder) *[]string { return &box(d).Landlock.Read },
			"Where it may read files and list directories (Landlock, Linux 5.19).")),
		reading("all", bind("program", "sandbox.landlock.write", codec.Settable(codec.List(ofStrings, codec.HostPath)),
			func(d *builder) *[]string { return &box(d).Landlock.Write },
			"Where it may write, make and remove files (Landlock, Linux 6.2).")),
		reading("all", bind("program", "sandbox.landlock.execute", codec.Settable(codec.List(ofStrings, codec.HostPath)),
			func(d *builder) *[]string { return &box(d).Landlock.Execute },
			"Where it may execute files, its own and their loader included (Landlock, Linux 5.19).")),
		reading("all", bind("program", "sandbox.landlock.bind_tcp", codec.Settable(codec.List("array of integers", codec.Integer(0, 65535))),
			func(d *builder) *[]int { return &box(d).Landlock.BindTCP },
			"The TCP ports that it may listen on; 0: any that the kernel chooses (Landlock, Linux "+
				"6.7). It does not hold for sockets of MPTCP.")),
		reading("all", bind("program", "sandbox.landlock.connect_tcp", codec.Settable(codec.List("array of integers", codec.Integer(0, 65535))),
			func(d *builder) *[]int { return &box(d).Landlock.ConnectTCP },
			"The TCP ports that it may connect to (Landlock, Linux 6.7). It does not hold for "+
				"sockets of MPTCP.")),
		reading("all", bind("program", "sandbox.syscalls.allow", codec.Settable(codec.List(ofStrings, syscallName(false))),
			func(d *builder) *[]string { return &box(d).Syscalls.Allow },
			"The system calls that it may make: names, and groups such as `\"@system-service\"`. "+
				"Those of `@default` are always allowed.")),
		bind("program", "sandbox.syscalls.deny", codec.List(ofStrings, syscallName(true)),
			func(d *builder) *[]string { return &box(d).Syscalls.Deny },
			"System calls that it may not make, even if `allow` has them."),
		reading("`\"EPERM\"`", bind("program", "sandbox.syscalls.errno", codec.Choice("EPERM", "EACCES", "ENOSYS", "EINVAL", "ENOENT", "EOPNOTSUPP", "EUCLEAN", "kill"),
			func(d *builder) *string { return &box(d).Syscalls.Errno },
			"The error of a refused system call; `\"kill\"`: the program gets SIGSYS.")),
		reading("all", bind("program", "sandbox.address_families", codec.Settable(codec.List(ofStrings, family)),
			func(d *builder) *[]string { return &box(d).AddressFamilies },
			"The kinds of sockets that it may make, such as `\"AF_INET\"`; `[]`: none.")),
		bind("program", "sandbox.deny_write_execute", codec.Boolean,
			func(d *builder) *bool { return &box(d).DenyWriteExecute },
			"Whether memory can't be both written and executed, at once or one after the other. "+
				"Programs that compile while they run fail: Java, Node.js, PHP with a JIT."),
	}
}

// capability reads the name of a capability.
var capability = codec.Named("a capability", "CAP_NET_BIND_SERVICE", sandbox.Capabilities)

// family reads the name of a kind of sockets.
var family = codec.Named("a kind of sockets", "AF_INET", sandbox.AddressFamilies)

// syscallName reads the name of a system call, or of a group of them. refused: it is to be refused.
func syscallName(refused bool) codec.Codec[string] {
	k := codec.Named("a system call", "@system-service", sandbox.SyscallNames)
	read := k.Read
	k.Read = func(v codec.Value) (string, bool) {
		s, ok := read(v)
		if ok && refused && sandbox.IsAlwaysAllowed(s) {
			v.Fail("%q can't be refused, no program runs without it: remove it", s)
			return "", false
		}
		return s, ok
	}
	return k
}

// protection reads false, true, "full" or "strict".
var protection = codec.Codec[sandbox.Protection]{
	Name:   `boolean, "full" or "strict"`,
	Schema: func() *codec.Schema { return &codec.Schema{Enum: []any{false, true, "full", "strict"}} },
	Show: func(p sandbox.Protection) string {
		switch p {
		case sandbox.ProtectNothing:
			return "false"
		case sandbox.ProtectUsr:
			return "true"
		default:
			return codec.QuoteSet(string(p))
		}
	},
	Read: func(v codec.Value) (sandbox.Protection, bool) {
		switch v.Raw {
		case false:
			return sandbox.ProtectNothing, true
		case true:
			return sandbox.ProtectUsr, true
		case string(sandbox.ProtectFull), string(sandbox.ProtectStrict):
			return sandbox.Protection(v.Raw.(string)), true
		}
		v.Fail(`must be false, true, "full" or "strict", got %s`, v.Describe())
		return "", false
	},
}

// checkSandbox checks the table sandbox, and fills the preset in.
func (d *builder) checkSandbox() {
	box := d.sandbox
	box.ApplyPreset(func(key string) bool { return d.anySet("sandbox." + key) })
	d.Sandbox = nil
	if box.Enabled() {
		d.Sandbox = &box
	}
	if d.isSet("sandbox.best_effort") && box.BestEffort && !box.Enabled() {
		d.set["sandbox.best_effort"].FailKey("has no meaning without another key of sandbox: add one, or remove it")
	}
	if d.isSet("sandbox.syscalls.errno") && !box.Syscalls.Enabled() {
		d.set["sandbox.syscalls.errno"].FailKey("has no meaning without syscalls.allow or syscalls.deny: add one, or remove it")
	}
	if box.Capabilities != nil {
		for _, name := range box.AmbientCapabilities {
			if !slices.Contains(box.Capabilities, name) {
				d.mistakeAt("sandbox.capabilities", "sandbox.ambient_capabilities").Fail("lacks %q, which is in ambient_capabilities: add it", name)
			}
		}
	}
	d.checkSandboxPaths(&box)
	if box.RootDirectory != "" && len(d.Command) > 0 && !strings.HasPrefix(d.Command[0], "/") && !strings.HasPrefix(d.Command[0], "$") {
		d.mistakeAt("command").Fail("%q is not searched for in sandbox.root_directory: write its absolute path there", d.Command[0])
	}
}

// checkSandboxPaths reports a path that is in two lists.
func (d *builder) checkSandboxPaths(box *sandbox.Settings) {
	seen := map[string]string{}
	for _, list := range []struct {
		key   string
		paths []string
	}{{"read_only", box.ReadOnly}, {"read_write", box.ReadWrite}, {"inaccessible", box.Inaccessible}} {
		for _, path := range list.paths {
			bare := strings.TrimPrefix(path, "-")
			if first, twice := seen[bare]; twice && first != list.key {
				d.mistakeAt("sandbox."+list.key).Fail("%q is in sandbox.%s, too: remove it from one of them", bare, first)
			}
			seen[bare] = list.key
		}
	}
}
