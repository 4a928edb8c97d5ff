// Package sandbox says what a program may do and see: the keys of [program.NAME.sandbox], and the
// plan that the exec shim carries out.
//
// [Settings] has the values of the keys. [New] turns them into a [Plan], which lists what is to be
// done in terms of the kernel, each with the key that demands it. The package is pure. Package
// sandbox/enforce, which only the exec shim links, carries a plan out.
package sandbox

// Settings are the keys of [program.NAME.sandbox], with the preset filled in.
type Settings struct {
	Preset     Preset
	BestEffort bool // what can't be enforced is a warning, not a failure

	NoNewPrivileges     *bool    // nil: if Landlock or a filter needs it
	Capabilities        []string // bounding set; nil: unchanged
	AmbientCapabilities []string

	ProtectSystem  Protection
	ReadOnly       []string // absolute paths; one that begins with - may be missing, here and below
	ReadWrite      []string
	Inaccessible   []string
	PrivateTmp     bool
	PrivateDevices bool
	PrivateNetwork bool
	RootDirectory  string // "": the host's

	Landlock         Landlock
	Syscalls         Syscalls
	AddressFamilies  []string // kinds of sockets that it may make, AF_INET; nil: all
	DenyWriteExecute bool
}

// Landlock restricts each kind of access to what its list names. nil: unrestricted.
type Landlock struct {
	Read, Write, Execute []string
	BindTCP, ConnectTCP  []int
}

// Syscalls is a filter of system calls: names, and groups that begin with @. Without Allow all
// are allowed, apart from Deny.
type Syscalls struct {
	Allow []string // nil: all
	Deny  []string
	Errno string // error of a refused call; "": EPERM
}

// Preset is a set of values for the keys that are not set.
type Preset string

// The values of sandbox.preset.
const (
	PresetNone   Preset = "none"
	PresetStrict Preset = "strict"
)

// Protection says how much of the system is read-only.
type Protection string

// The values of sandbox.protect_system.
const (
	ProtectNothing Protection = ""       // false
	ProtectUsr     Protection = "true"   // /usr, /boot and /efi
	ProtectFull    Protection = "full"   // /etc as well
	ProtectStrict  Protection = "strict" // all but /dev and most of /proc
)

// Enabled reports whether s demands anything.
func (s *Settings) Enabled() bool {
	return s != nil && (s.ChangesMounts() || s.PrivateNetwork || s.restrictsCapabilities() ||
		s.NoNewPrivileges != nil && *s.NoNewPrivileges || s.Landlock.Enabled() || s.filters())
}

// filters reports whether the program gets a filter of system calls.
func (s *Settings) filters() bool { return len(s.filterKeys()) > 0 }

// filterKeys returns the keys that demand a filter of system calls.
func (s *Settings) filterKeys() (keys []string) {
	if s.Syscalls.Enabled() {
		keys = append(keys, "syscalls")
	}
	if s.AddressFamilies != nil {
		keys = append(keys, "address_families")
	}
	if s.DenyWriteExecute {
		keys = append(keys, "deny_write_execute")
	}
	return keys
}

// ChangesMounts reports whether the program gets a mount namespace of its own.
func (s *Settings) ChangesMounts() bool {
	return s.ProtectSystem != ProtectNothing || s.PrivateTmp || s.PrivateDevices || s.RootDirectory != "" ||
		len(s.ReadOnly)+len(s.ReadWrite)+len(s.Inaccessible) > 0
}

func (s *Settings) restrictsCapabilities() bool {
	return s.Capabilities != nil || len(s.AmbientCapabilities) > 0
}

// Enabled reports whether l restricts anything.
func (l *Landlock) Enabled() bool { return l.restrictsFiles() || l.restrictsTCP() }

func (l *Landlock) restrictsFiles() bool { return l.Read != nil || l.Write != nil || l.Execute != nil }

func (l *Landlock) restrictsTCP() bool { return l.BindTCP != nil || l.ConnectTCP != nil }

// Enabled reports whether s refuses anything.
func (s *Syscalls) Enabled() bool { return s.Allow != nil || len(s.Deny) > 0 }

// strict has the values of [PresetStrict], which suit a service that does not begin as root, or
// needs no right of root.
var strict = struct {
	capabilities, allow []string
}{[]string{}, []string{"@system-service"}}

// ApplyPreset sets what the preset says for the keys that isSet does not report.
func (s *Settings) ApplyPreset(isSet func(key string) bool) {
	if s.Preset != PresetStrict {
		return
	}
	if !isSet("no_new_privileges") {
		s.NoNewPrivileges = new(true)
	}
	if !isSet("capabilities") {
		s.Capabilities = append(strict.capabilities, s.AmbientCapabilities...)
	}
	if !isSet("protect_system") {
		s.ProtectSystem = ProtectStrict
	}
	if !isSet("private_tmp") {
		s.PrivateTmp = true
	}
	if !isSet("private_devices") {
		s.PrivateDevices = true
	}
	if !isSet("syscalls.allow") {
		s.Syscalls.Allow = strict.allow
	}
}
