package enforce

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/sandbox"
)

// Rights to files, as Landlock has them, by key.
//
// Source: landlock(7).
const (
	rightsRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsExecute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsWrite   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// Rights to anything but a directory
	rightsFile = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// Versions of Landlock's interface.
const (
	hasRefer    = 2
	hasTruncate = 3
	hasTCP      = 4
)

// A netPort is struct landlock_net_port_attr.
type netPort struct{ access, port uint64 }

// ruleNetPort is LANDLOCK_RULE_NET_PORT.
const ruleNetPort = 2

// A fileRight is a kind of access to files.
type fileRight struct {
	key     string
	rights  uint64
	version int
	allowed []sandbox.Beneath // nil: not restricted
}

// A portRight is a kind of access to ports.
type portRight struct {
	key     string
	rights  uint64
	allowed []int // nil: not restricted
}

// makeRuleset makes the ruleset of the plan's rules. Its paths are opened here, before the thread
// has the rights of the program's user only.
func (s *Sandbox) makeRuleset() error {
	rules := s.plan.Landlock
	files := []fileRight{
		{"landlock.read", rightsRead, hasRefer, rules.Read},
		{"landlock.write", rightsWrite, hasTruncate, rules.Write},
		{"landlock.execute", rightsExecute, hasRefer, rules.Execute},
	}
	ports := []portRight{
		{"landlock.bind_tcp", unix.LANDLOCK_ACCESS_NET_BIND_TCP, rules.BindTCP},
		{"landlock.connect_tcp", unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, rules.ConnectTCP},
	}
	version, errno := landlockVersion()
	var attr unix.LandlockRulesetAttr
	for i, f := range files {
		if f.allowed == nil {
			continue
		}
		if version < f.version {
			files[i].allowed = nil
			if err := s.check(f.key, "", errno); err != nil {
				return err
			}
			continue
		}
		// A ruleset about files refuses renames between directories unless it handles them.
		attr.Handled_access_fs |= f.rights | unix.LANDLOCK_ACCESS_FS_REFER
	}
	for i, p := range ports {
		if p.allowed == nil {
			continue
		}
		if version < hasTCP {
			ports[i].allowed = nil
			if err := s.check(p.key, "", errno); err != nil {
				return err
			}
			continue
		}
		attr.Handled_access_net |= p.rights
	}
	if attr.Handled_access_fs == 0 && attr.Handled_access_net == 0 {
		return nil
	}
	fd, _, errno2 := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno2 != 0 {
		return s.check("landlock", "", errno2)
	}
	s.ruleset = int(fd)
	if err := s.addFiles(files); err != nil {
		return err
	}
	return s.addPorts(ports)
}

// landlockVersion returns the version of the kernel's Landlock; 0 with an error without it. The
// error stands for any version that is too low, too.
func landlockVersion() (int, syscall.Errno) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(version), unix.EOPNOTSUPP
}

func (s *Sandbox) addFiles(files []fileRight) error {
	for _, f := range files {
		for _, beneath := range f.allowed {
			if err := s.check(f.key, beneath.Path, s.allow(beneath, f.rights)); err != nil {
				return err
			}
		}
	}
	if s.plan.Landlock.RestrictsFiles() && s.plan.Landlock.Write == nil {
		return s.check("landlock", "/", s.allow(sandbox.Beneath{Path: "/"}, unix.LANDLOCK_ACCESS_FS_REFER))
	}
	return nil
}

// allow adds a rule for a path.
func (s *Sandbox) allow(beneath sandbox.Beneath, rights uint64) error {
	root, err := unix.Open("/", openPath|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	fd, err := s.open(root, beneath.Path)
	if beneath.Optional && (err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	return s.addRule(unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&rule))
}

func (s *Sandbox) addPorts(ports []portRight) error {
	for _, p := range ports {
		for _, port := range p.allowed {
			rule := netPort{access: p.rights, port: uint64(port)}
			err := s.addRule(ruleNetPort, unsafe.Pointer(&rule))
			if err := s.check(p.key, strconv.Itoa(port), err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Sandbox) addRule(kind uintptr, rule unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(s.ruleset), kind, uintptr(rule), 0, 0, 0)
	return result(errno)
}
