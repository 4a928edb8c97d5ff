package sandbox

// An escape is a key and what a program tries that the key forbids, or lets it do. One list of them
// is tried under superd with different rights, and under systemd.
//
// In all texts DIR, PORT, SHARED and DEVICE are replaced: see [layOut].
type escape struct {
	key     string // as in the reference
	value   string // TOML
	base    string // keys of sandbox that the program also has without the key
	user    bool   // the program has a user of its own, if superd can change it
	try     string // NAME=ARGUMENT of child probe
	says    string // what that is
	without string // result without the key, as root
	with    string // results with it, separated by |
	systemd string // directives of systemd with the same meaning; "": it has none
	bare    string // directives for base

	// Ways in which superd lacks the rights: the start is refused with the key's name.
	refused []way
}

// A way is the rights of superd.
type way string

// In a container superd has no capability, and the kernel refuses mounts and namespaces.
const (
	asRoot          way = "root"
	asUser          way = "user"
	rootInContainer way = "root in a container"
	userInContainer way = "user in a container"
)

var ways = []way{asRoot, asUser, rootInContainer, userInContainer}

const (
	hidesTmp     = `read_only = ["DIR"]` // which is in /tmp
	strictKeys   = "NoNewPrivileges=yes\nCapabilityBoundingSet=\nProtectSystem=strict\nPrivateTmp=yes\nPrivateDevices=yes\n" + onlyServices
	onlyServices = "SystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM"
)

// mounts and others are the ways in which keys of that kind are refused. In a container there is no
// capability to take away.
var (
	mounts  = []way{rootInContainer, userInContainer}
	drops   = []way{asUser}
	ambient = []way{asUser, rootInContainer, userInContainer}
)

var escapes = []escape{
	{key: "no_new_privileges", value: "true", user: true, try: "suid=DIR/suid", says: "run a set-user-ID binary of root",
		without: "ok", with: "EPERM|root already", systemd: "NoNewPrivileges=yes"},
	{key: "capabilities", value: "[]", try: "chown=DIR/owned", says: "give a file to another user",
		without: "ok", with: "EPERM", systemd: "CapabilityBoundingSet=", refused: drops},
	{key: "capabilities", value: "[]", try: "raw-socket", says: "open a raw socket",
		without: "ok", with: "EPERM", systemd: "CapabilityBoundingSet=", refused: drops},
	{key: "capabilities", value: "[]", try: "mount=DIR/open", says: "mount a file system",
		without: "ok", with: "EPERM", systemd: "CapabilityBoundingSet=", refused: drops},
	{key: "capabilities", value: "[]", try: "trace=DIR/target", says: "trace a process of root",
		without: "ok", with: "EPERM", systemd: "CapabilityBoundingSet=", refused: drops},
	{key: "ambient_capabilities", value: `["CAP_NET_RAW"]`, user: true, try: "raw-socket", says: "open a raw socket as another user",
		without: "EPERM", with: "ok", systemd: "AmbientCapabilities=CAP_NET_RAW", refused: ambient},
	{key: "protect_system", value: "true", try: "write=/usr", says: "write to /usr",
		without: "ok", with: "EROFS", systemd: "ProtectSystem=yes", refused: mounts},
	{key: "protect_system", value: `"full"`, try: "write=/etc", says: "write to /etc",
		without: "ok", with: "EROFS", systemd: "ProtectSystem=full", refused: mounts},
	{key: "protect_system", value: `"strict"`, try: "write=DIR/open", says: "write elsewhere",
		without: "ok", with: "EROFS", systemd: "ProtectSystem=strict", refused: mounts},
	{key: "read_only", value: `["DIR/open"]`, try: "write=DIR/open", says: "write there",
		without: "ok", with: "EROFS", systemd: "ReadOnlyPaths=DIR/open", refused: mounts},
	{key: "read_write", value: `["DIR/open"]`, base: `protect_system = "strict"`, try: "write=DIR/open", says: `write there, with protect_system = "strict"`,
		without: "EROFS", with: "ok", systemd: "ReadWritePaths=DIR/open", bare: "ProtectSystem=strict", refused: mounts},
	{key: "inaccessible", value: `["DIR/hidden"]`, try: "read=DIR/hidden/secret", says: "read a file there",
		without: "ok", with: "ENOENT|EACCES", systemd: "InaccessiblePaths=DIR/hidden", refused: mounts},
	{key: "private_tmp", value: "true", base: hidesTmp, try: "stat=SHARED", says: "see a file of others in /var/tmp",
		without: "ok", with: "ENOENT", systemd: "PrivateTmp=yes", refused: mounts},
	{key: "private_devices", value: "true", try: "stat=DEVICE", says: "see a device",
		without: "ok", with: "ENOENT", systemd: "PrivateDevices=yes", refused: mounts},
	{key: "private_devices", value: "true", try: "mknod=DIR/open", says: "make a device",
		without: "ok", with: "EPERM", systemd: "PrivateDevices=yes", refused: mounts},
	{key: "private_network", value: "true", try: "connect=PORT", says: "connect to a port of the host",
		without: "ok", with: "ECONNREFUSED", systemd: "PrivateNetwork=yes", refused: mounts},
	{key: "root_directory", value: `"DIR/root"`, try: "stat=DIR/open", says: "see a directory of the host",
		without: "ok", with: "ENOENT", systemd: "RootDirectory=DIR/root", refused: mounts},
	{key: "landlock.read", value: `["DIR/child"]`, try: "read=DIR/hidden/secret", says: "read another file",
		without: "ok", with: "EACCES"},
	{key: "landlock.write", value: `["DIR/owned"]`, try: "write=DIR/open", says: "write elsewhere",
		without: "ok", with: "EACCES"},
	{key: "landlock.execute", value: `["DIR/child"]`, try: "execute=DIR/open/file", says: "execute another file",
		without: "ok", with: "EACCES"},
	{key: "landlock.bind_tcp", value: "[1]", try: "bind=0", says: "listen on another port",
		without: "ok", with: "EACCES"},
	{key: "landlock.connect_tcp", value: "[1]", try: "connect=PORT", says: "connect to another port",
		without: "ok", with: "EACCES"},
	{key: "syscalls.allow", value: `["@system-service"]`, try: "trace-child", says: "trace a child",
		without: "ok", with: "EPERM", systemd: onlyServices},
	{key: "syscalls.deny", value: `["@debug"]`, try: "trace-child", says: "trace a child",
		without: "ok", with: "EPERM", systemd: "SystemCallFilter=~@debug\nSystemCallErrorNumber=EPERM"},
	{key: "syscalls.deny", value: `["@mount"]`, try: "mount=DIR/open", says: "mount a file system",
		without: "ok", with: "EPERM", systemd: "SystemCallFilter=~@mount\nSystemCallErrorNumber=EPERM"},
	{key: "syscalls.errno", value: `"EINVAL"`, base: `syscalls.deny = ["getpriority"]`, try: "priority", says: "make a denied call",
		without: "EPERM", with: "EINVAL", systemd: "SystemCallErrorNumber=EINVAL", bare: "SystemCallFilter=~getpriority\nSystemCallErrorNumber=EPERM"},
	{key: "address_families", value: `["AF_UNIX"]`, try: "connect=PORT", says: "connect to a port",
		without: "ok", with: "EAFNOSUPPORT", systemd: "RestrictAddressFamilies=AF_UNIX"},
	{key: "address_families", value: `["AF_INET"]`, try: "netlink", says: "make a socket of another kind",
		without: "ok", with: "EAFNOSUPPORT", systemd: "RestrictAddressFamilies=AF_INET"},
	{key: "deny_write_execute", value: "true", try: "map-code", says: "map memory to write and execute",
		without: "ok", with: "EPERM", systemd: "MemoryDenyWriteExecute=yes"},
	{key: "deny_write_execute", value: "true", try: "written-code", says: "make memory executable that it has written",
		without: "ok", with: "EPERM", systemd: "MemoryDenyWriteExecute=yes"},
	{key: "preset", value: `"strict"`, base: hidesTmp, try: "write=/var/lib", says: "write to /var/lib",
		without: "ok", with: "EROFS", systemd: strictKeys, refused: mounts},
	{key: "preset", value: `"strict"`, base: hidesTmp, try: "raw-socket", says: "open a raw socket",
		without: "ok", with: "EPERM", systemd: strictKeys, refused: mounts},
	{key: "preset", value: `"strict"`, base: hidesTmp, try: "mount=DIR/open", says: "mount a file system",
		without: "ok", with: "EPERM", systemd: strictKeys, refused: mounts},
	{key: "preset", value: `"strict"`, base: hidesTmp, try: "trace-child", says: "trace a child",
		without: "ok", with: "EPERM", systemd: strictKeys, refused: mounts},
}
