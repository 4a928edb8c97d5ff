package sandbox

import (
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// show returns paths as text: "ro /etc" for each, "rw /tmp=/host" with a source, "?" if it may be
// missing.
func show(paths []Path) string {
	var all []string
	for _, p := range paths {
		text := string(p.View) + " " + p.Path
		if p.Source != "" && p.Source != p.Path {
			text += "=" + p.Source
		}
		if p.Optional {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestPaths(t *testing.T) {
	tests := []struct {
		name     string
		settings Settings
		want     string
	}{
		{"usr", Settings{ProtectSystem: ProtectUsr}, "ro /boot?, ro /efi?, ro /usr?"},
		{"full", Settings{ProtectSystem: ProtectFull}, "ro /boot?, ro /efi?, ro /etc?, ro /usr?"},
		{"strict", Settings{ProtectSystem: ProtectStrict}, "ro /, rw /dev?, rw /proc?, ro /proc/bus?, ro /proc/irq?, ro /proc/sys?, ro /proc/sysrq-trigger?, ro /sys?"},
		{"a directory precedes what is in it",
			Settings{ReadOnly: []string{"/a/b", "/a-b", "/a"}, ReadWrite: []string{"-/a/b/c"}},
			"ro /a, ro /a/b, rw /a/b/c?, ro /a-b"},
		{"private devices replace those of strict", Settings{ProtectSystem: ProtectStrict, PrivateDevices: true},
			"ro /, dev /dev, rw /proc?, ro /proc/bus?, ro /proc/irq?, ro /proc/sys?, ro /proc/sysrq-trigger?, ro /sys?"},
		{"strict, but for settings of the kernel", Settings{ProtectSystem: ProtectStrict, ReadWrite: []string{"/proc/sys", "-/sys/fs/cgroup"}},
			"ro /, rw /dev?, rw /proc?, ro /proc/bus?, ro /proc/irq?, rw /proc/sys, ro /proc/sysrq-trigger?, ro /sys?, rw /sys/fs/cgroup?"},
		{"a private tmp keeps the notify socket", Settings{PrivateTmp: true},
			"rw /run/n, rw /tmp=/tmp/x/tmp, rw /var/tmp=/tmp/x/var-tmp?"},
		{"so do hidden paths", Settings{Inaccessible: []string{"/run"}}, "none /run, rw /run/n"},
		{"a root gets what each program needs", Settings{RootDirectory: "/r"},
			"rw /dev?, rw /proc?, rw /run/n, rw /sys?"},
		{"a root with private devices", Settings{RootDirectory: "/r", PrivateDevices: true},
			"dev /dev, rw /proc?, rw /run/n, rw /sys?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(&tt.settings, Run{NotifySocket: "/run/n", Tmp: "/tmp/x"}, new(Programs))
			if got := show(p.Paths); got != tt.want || !p.Mounts {
				t.Errorf("paths are %s, want %s", got, tt.want)
			}
		})
	}
}

// TestArrange: entries for one path become one that leaves the program what all of them leave.
func TestArrange(t *testing.T) {
	ro, rw := Path{Path: "/x", View: ViewReadOnly}, Path{Path: "/x", View: ViewReadWrite}
	nothing, devices := Path{Path: "/x", View: ViewNothing}, Path{Path: "/x", View: ViewDevices}
	host := Path{Path: "/x", View: ViewReadWrite, Source: "/x", Optional: true}
	private := Path{Path: "/x", View: ViewReadWrite, Source: "/private", Optional: true}
	tests := []struct {
		paths []Path
		want  string
	}{
		{[]Path{rw, ro}, "ro /x"},
		{[]Path{ro, nothing}, "none /x"},
		{[]Path{ro, devices}, "dev-ro /x"},
		{[]Path{rw, devices}, "dev /x"},
		{[]Path{host, ro, devices}, "dev-ro /x"},
		{[]Path{devices, nothing}, "none /x"},
		{[]Path{private, ro}, "ro /x=/private"},
		{[]Path{private, rw}, "rw /x=/private"},
		{[]Path{private, host}, "rw /x=/private?"},
		{[]Path{private, nothing}, "none /x"},
	}
	for _, tt := range tests {
		for range 2 {
			got := Arrange(append([]Path{{Path: "/x/y", View: ViewReadWrite}, {Path: "/", View: ViewReadOnly}}, tt.paths...))
			if want := "ro /, " + tt.want + ", rw /x/y"; show(got) != want {
				t.Errorf("Arrange(%s) = %s, want %s", show(tt.paths), show(got), want)
			}
			slices.Reverse(tt.paths)
		}
	}
}

func TestNothingIsNoPlan(t *testing.T) {
	for name, s := range map[string]*Settings{
		"none": nil, "empty": {}, "only how": {Preset: PresetNone, BestEffort: true}, "off": {NoNewPrivileges: new(false)},
	} {
		if p := New(s, Run{}, new(Programs)); p != nil {
			t.Errorf("%s: New = %+v, want nil", name, p)
		}
	}
}

func TestCapabilities(t *testing.T) {
	p := New(&Settings{Capabilities: []string{"CAP_MKNOD", "CAP_KILL"}, AmbientCapabilities: []string{"CAP_KILL"}, PrivateDevices: true}, Run{}, new(Programs))
	if *p.Bounding != 1<<5 || p.Ambient != 1<<5 {
		t.Errorf("bounding %x, ambient %x, want CAP_KILL in both", *p.Bounding, p.Ambient)
	}
	p = New(&Settings{PrivateDevices: true}, Run{}, new(Programs))
	if p.Bounding.Has(27) || p.Bounding.Has(17) || !p.Bounding.Has(0) || !p.Bounding.Has(63) {
		t.Errorf("bounding %x, want all but CAP_MKNOD and CAP_SYS_RAWIO", *p.Bounding)
	}
	if p := New(&Settings{PrivateTmp: true}, Run{}, new(Programs)); p.Bounding != nil {
		t.Errorf("bounding %x, want none", *p.Bounding)
	}
}

func TestPreset(t *testing.T) {
	s := Settings{Preset: PresetStrict, AmbientCapabilities: []string{"CAP_KILL"}}
	s.ApplyPreset(func(string) bool { return false })
	want := Settings{
		Preset: PresetStrict, AmbientCapabilities: []string{"CAP_KILL"}, Capabilities: []string{"CAP_KILL"},
		NoNewPrivileges: new(true), ProtectSystem: ProtectStrict, PrivateTmp: true, PrivateDevices: true,
		Syscalls: Syscalls{Allow: []string{"@system-service"}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("strict is %+v, want %+v", s, want)
	}
	own := Settings{Preset: PresetStrict, NoNewPrivileges: new(false)}
	before := own
	own.ApplyPreset(func(string) bool { return true })
	if !reflect.DeepEqual(own, before) {
		t.Errorf("the preset changes keys that are set: %+v", own)
	}
	denies := Settings{Preset: PresetStrict}
	denies.ApplyPreset(func(key string) bool { return key == "syscalls.deny" })
	if !slices.Equal(denies.Syscalls.Allow, want.Syscalls.Allow) {
		t.Errorf("with denied calls the preset allows %q", denies.Syscalls.Allow)
	}
}

func TestFilter(t *testing.T) {
	has := func(f *Filter, call string) bool { return slices.Contains(f.Calls, call) }
	f := (&Syscalls{Allow: []string{"@basic-io", "mount"}, Deny: []string{"@mount", "write"}}).Filter()
	if f.Refuse || f.Errno != "EPERM" || !has(f, "read") || !has(f, "execve") || has(f, "mount") || has(f, "write") || !slices.IsSorted(f.Calls) {
		t.Errorf("allow without deny: %+v", f)
	}
	f = (&Syscalls{Deny: []string{"@system-service"}, Errno: "kill"}).Filter()
	if !f.Refuse || f.Errno != "kill" || !has(f, "read") || has(f, "execve") || has(f, "exit_group") {
		t.Errorf("deny: %+v", f)
	}
	if f := (&Syscalls{Allow: []string{}}).Filter(); f == nil || f.Refuse || !has(f, "execve") || has(f, "read") {
		t.Errorf("an empty list allows %+v, want those of @default", f)
	}
	if f := (&Syscalls{Errno: "ENOSYS"}).Filter(); f != nil {
		t.Errorf("a filter without calls: %+v", f)
	}
}

// TestGroupsAreClosed: each member of a group is a group or a known call.
func TestGroupsAreClosed(t *testing.T) {
	if len(groups()) != 29 {
		t.Errorf("%d groups", len(groups()))
	}
	all := SyscallNames()
	for name, members := range groups() {
		for _, member := range members {
			if !slices.Contains(all, member) {
				t.Errorf("%s has %s, which is unknown", name, member)
			}
		}
	}
}

// TestPlanIsReadBack: nil and empty lists differ in a plan that was read back.
func TestPlanIsReadBack(t *testing.T) {
	s := &Settings{
		Preset: PresetStrict, PrivateNetwork: true, Capabilities: []string{}, NoNewPrivileges: new(false),
		Landlock: Landlock{Read: []string{}, Write: []string{"-/x/"}, BindTCP: []int{}}, ReadOnly: []string{"/ "},
		Syscalls: Syscalls{Deny: []string{"@mount"}},
	}
	p := New(s, Run{UserNamespace: &IDs{UID: 5, GID: 6}}, new(Programs))
	if len(p.Filter) == 0 {
		t.Skip("no filter for this architecture")
	}
	for _, p := range []*Plan{p, {}, {Filter: []Instruction{}}, {BestEffort: true, Network: true, User: new(3), Ambient: 5, Landlock: &Rules{}}} {
		fields := p.Fields()
		if got, err := ReadPlan(fields); err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("plan %q is read back as %+v, %v, want %+v", fields, got, err, p)
		}
		for i := range fields {
			for name, other := range map[string][]string{
				"without a field":    slices.Delete(slices.Clone(fields), i, i+1),
				"with a field twice": slices.Insert(slices.Clone(fields), i, fields[i]),
				"with another key":   slices.Replace(slices.Clone(fields), i, i+1, "x"+fields[i]),
			} {
				if got, err := ReadPlan(other); err == nil {
					t.Errorf("plan %q, %s, is %+v", other, name, got)
				}
			}
		}
	}
}

// TestFailures: a failure names its key, what is missing and what to do.
func TestFailures(t *testing.T) {
	tests := []struct {
		f    Failure
		want string
	}{
		{Failure{"read_only", "/x", syscall.ENOENT, RightsOfUser, false}, `sandbox.read_only /x: no such file or directory: create it, or write "-/x" if it may be missing`},
		{Failure{"private_network", "", syscall.EPERM, RightsOfUser, false}, "sandbox.private_network: operation not permitted: superd needs CAP_SYS_ADMIN, or a kernel"},
		{Failure{"private_network", "", syscall.EPERM, RightsOfRoot, false}, "sandbox.private_network: operation not permitted: superd lacks CAP_SYS_ADMIN or CAP_NET_ADMIN"},
		{Failure{"private_network", "", syscall.EROFS, RightsOfNamespace, false}, "sandbox.private_network: read-only file system: superd needs CAP_SYS_ADMIN, or a kernel"},
		{Failure{"protect_system", "/", syscall.ENOSYS, RightsOfUser, false}, "sandbox.protect_system /: function not implemented: it needs Linux 5.12"},
		{Failure{"landlock.connect_tcp", "", syscall.EOPNOTSUPP, RightsOfUser, false}, "sandbox.landlock.connect_tcp: operation not supported: it needs Landlock 4"},
		{Failure{"landlock", "", syscall.EPERM, RightsOfUser, false}, "sandbox.landlock: operation not permitted: set sandbox.no_new_privileges = true"},
		{Failure{"syscalls", "", syscall.EACCES, RightsOfUser, false}, "sandbox.syscalls: permission denied: set sandbox.no_new_privileges = true"},
		{Failure{"capabilities", "", syscall.EPERM, RightsOfUser, false}, "sandbox.capabilities: operation not permitted: superd needs CAP_SETPCAP"},
		{Failure{"ambient_capabilities", "CAP_KILL", syscall.EPERM, RightsOfUser, false}, "sandbox.ambient_capabilities CAP_KILL: operation not permitted: superd itself lacks it"},
		{Failure{"read_only", "/x", syscall.EPERM, RightsOfRoot, true}, "sandbox.read_only /x: operation not permitted: it needs Linux 5.6 (openat2)"},
		{Failure{"landlock.read", "/x", syscall.ENOSYS, RightsOfUser, true}, "sandbox.landlock.read /x: function not implemented: it needs Linux 5.6 (openat2)"},
		{Failure{"read_only", "/x", syscall.ELOOP, RightsOfUser, false}, "sandbox.read_only /x: too many levels of symbolic links: a symbolic link there is the program's, or leads in a circle: name the path"},
		{Failure{"private_tmp", "/tmp", syscall.EIO, RightsOfUser, false}, "sandbox.private_tmp /tmp: input/output error"},
	}
	for _, tt := range tests {
		if got := tt.f.Error(); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v is %q, want %q", tt.f, got, tt.want)
		}
	}
}
