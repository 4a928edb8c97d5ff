package sandbox

import (
	"path/filepath"
	"slices"
	"strings"
)

// A Plan is what the exec shim does, in the order of the fields. It has no secrets: other users
// may read it in the arguments of the shim.
type Plan struct {
	BestEffort bool

	// User and group to keep in the user namespace in which the shim was started; nil: none
	UserNamespace *IDs
	// A network namespace with a loopback device only
	Network bool
	Mounts  bool   // a mount namespace
	Root    string // new root directory; "": none
	Paths   []Path // sorted by path, below the new root
	User    *int   // whose symbolic links are not followed; nil: none

	Bounding   *CapSet // capabilities to keep; nil: all
	Ambient    CapSet
	NoNewPrivs *bool // nil: if Landlock or a filter is there

	Landlock *Rules
	// Of system calls; nil: none; empty: superd has no table of calls for this architecture
	Filter     []Instruction
	FilterKeys []string // that demand it
}

// IDs are a user and a group.
type IDs struct {
	UID int
	GID int
}

// A Path is what the program finds at a path.
type Path struct {
	Key      string // that demands it: "read_only"
	Path     string
	View     View
	Source   string // on the host; "": the path itself
	Optional bool   // it may be missing
}

// A View is how a program sees a path.
type View string

// The views. A path within another one is seen as it says itself.
const (
	ViewReadOnly  View = "ro"
	ViewReadWrite View = "rw"   // as it is on the host
	ViewNothing   View = "none" // an empty file or directory without rights
	ViewDevices   View = "dev"  // a /dev with harmless devices

	ViewReadOnlyDevices View = "dev-ro" // such a /dev, with no writable directory
)

// Rules are what Landlock allows. nil: unrestricted.
type Rules struct {
	Read       []Beneath
	Write      []Beneath
	Execute    []Beneath
	BindTCP    []int
	ConnectTCP []int
}

// A Beneath is a file or a directory with all that is in it.
type Beneath struct {
	Path     string
	Optional bool
}

// A Run is what a plan has to know of a run.
type Run struct {
	NotifySocket string   // path that has to be reachable; "": none
	Directories  []string // that superd makes for the program, which can write there
	// Directory with the directories [TmpDirs], for private_tmp
	Tmp           string
	User          *int // of the program, if it is not superd's
	UserNamespace *IDs // of superd's own, if it has no right to change mounts; nil: it has
}

// TmpDirs are the directories in [Run.Tmp], each with the path that it replaces.
var TmpDirs = map[string]string{"tmp": "/tmp", "var-tmp": "/var/tmp"}

// New returns the plan for a run; nil if the settings demand nothing.
func New(s *Settings, run Run, programs *Programs) *Plan {
	if !s.Enabled() {
		return nil
	}
	p := &Plan{
		BestEffort: s.BestEffort, Network: s.PrivateNetwork, Mounts: s.ChangesMounts(), Root: s.RootDirectory,
		Ambient: setOf(s.AmbientCapabilities), NoNewPrivs: s.NoNewPrivileges,
		Landlock: s.Landlock.rules(), Filter: programs.of(s), FilterKeys: s.filterKeys(), User: run.User,
	}
	if p.Network || p.Mounts {
		p.UserNamespace = run.UserNamespace
	}
	if p.Mounts {
		p.Paths = s.paths(run)
	}
	switch {
	case s.Capabilities != nil:
		p.Bounding = new(setOf(s.Capabilities))
	case s.PrivateDevices: // otherwise root could make devices elsewhere
		p.Bounding = new(AllCapabilities)
	}
	if s.PrivateDevices {
		*p.Bounding = p.Bounding.Without("CAP_MKNOD", "CAP_SYS_RAWIO")
	}
	return p
}

// kernelPaths are where a program that runs as root changes the kernel, devices and the cgroups of
// others, even without capabilities. Source: proc(5), sysfs(5), systemd.exec(5)
// (ProtectKernelTunables=, ProtectControlGroups=).
var kernelPaths = []string{"/proc/bus", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"}

// opens reports whether read_write names a path.
func (s *Settings) opens(path string) bool {
	return slices.ContainsFunc(s.ReadWrite, func(open string) bool {
		return filepath.Clean(strings.TrimPrefix(open, "-")) == path
	})
}

// paths returns what the program finds at each path.
func (s *Settings) paths(run Run) (all []Path) {
	add := func(key string, view View, paths ...string) {
		for _, path := range paths {
			bare, optional := strings.CutPrefix(path, "-")
			all = append(all, Path{Key: key, Path: filepath.Clean(bare), View: view, Optional: optional})
		}
	}
	if s.RootDirectory != "" {
		for _, path := range []string{"/proc", "/sys", "/dev"} {
			all = append(all, Path{Key: "root_directory", Path: path, View: ViewReadWrite, Source: path, Optional: true})
		}
	}
	switch s.ProtectSystem {
	case ProtectStrict:
		add("protect_system", ViewReadOnly, "/")
		add("protect_system", ViewReadWrite, "-/dev", "-/proc")
		for _, path := range kernelPaths {
			if !s.opens(path) {
				all = append(all, Path{Key: "protect_system", Path: path, View: ViewReadOnly, Source: path, Optional: true})
			}
		}
	case ProtectFull:
		add("protect_system", ViewReadOnly, "-/usr", "-/boot", "-/efi", "-/etc")
	case ProtectUsr:
		add("protect_system", ViewReadOnly, "-/usr", "-/boot", "-/efi")
	case ProtectNothing:
	}
	if s.PrivateTmp {
		for _, name := range []string{"tmp", "var-tmp"} {
			all = append(all, Path{Key: "private_tmp", Path: TmpDirs[name], View: ViewReadWrite,
				Source: filepath.Join(run.Tmp, name), Optional: name == "var-tmp"})
		}
	}
	if s.PrivateDevices {
		add("private_devices", ViewDevices, "/dev")
	}
	add("read_write", ViewReadWrite, s.ReadWrite...)
	if len(all) > 0 {
		for _, path := range run.Directories {
			all = append(all, Path{Key: "read_write", Path: path, View: ViewReadWrite, Source: path})
		}
	}
	add("read_only", ViewReadOnly, s.ReadOnly...)
	add("inaccessible", ViewNothing, s.Inaccessible...)
	if key := s.hiding(); key != "" && run.NotifySocket != "" {
		all = append(all, Path{Key: key, Path: run.NotifySocket, View: ViewReadWrite, Source: run.NotifySocket})
	}
	return Arrange(all)
}

// hiding returns the key that may hide the notify socket; "" if there is none.
func (s *Settings) hiding() string {
	switch {
	case s.RootDirectory != "":
		return "root_directory"
	case s.PrivateTmp:
		return "private_tmp"
	case len(s.Inaccessible) > 0:
		return "inaccessible"
	}
	return ""
}

// NamespaceKey returns a key that demands a namespace.
func (p *Plan) NamespaceKey() string {
	if keys := p.MountKeys(); len(keys) > 0 {
		return keys[0]
	}
	return "private_network"
}

// MountKeys returns the keys that demand a mount namespace.
func (p *Plan) MountKeys() (keys []string) {
	for _, path := range p.Paths {
		if !slices.Contains(keys, path.Key) {
			keys = append(keys, path.Key)
		}
	}
	return keys
}
