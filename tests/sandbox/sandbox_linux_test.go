// Package sandbox tests sandboxes from inside: a program tries what each key forbids. It is refused
// with the key, and done without it.
package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// A probe is what a program tries, and how a sandbox refuses it.
type probe struct {
	name    string
	sandbox string // keys of sandbox
	try     string // NAME=ARGUMENT of child probe; DIR, PORT are replaced
	want    string // "ok" or the name of an error
	without string // the same without the sandbox; "" is "ok"
}

// ofFiles need a mount namespace.
var ofFiles = []probe{
	{"protect_system", `protect_system = true`, "write=/usr", "EROFS", ""},
	{"full", `protect_system = "full"`, "write=/etc", "EROFS", ""},
	{"full leaves others", `protect_system = "full"`, "write=DIR/open", "ok", ""},
	{"strict", `protect_system = "strict"`, "write=DIR/open", "EROFS", ""},
	{"read_write", `protect_system = "strict", read_write = ["DIR/open"]`, "write=DIR/open", "ok", ""},
	{"read_only", `read_only = ["DIR/open"]`, "write=DIR/open", "EROFS", ""},
	{"read_only in read_write", `read_only = ["DIR", "DIR/open/in"], read_write = ["DIR/open"]`, "write=DIR/open/in", "EROFS", ""},
	{"read_only by a link", `read_only = ["DIR/link"]`, "write=DIR/open", "EROFS", ""},
	{"inaccessible file", `inaccessible = ["DIR/open/file"]`, "execute=DIR/open/file", "EACCES", ""},
	{"missing, but may be", `read_only = ["-/nowhere", "DIR/open"]`, "write=DIR/open", "EROFS", ""},
	{"unreachable, but may be", `read_only = ["-/root/x", "-/etc/passwd/x", "DIR/open"]`, "write=DIR/open", "EROFS", ""},
	{"read-only below a private tmp", `private_tmp = true, read_only = ["DIR"]`, "write=DIR/open", "EROFS", ""},
	{"private_tmp", `private_tmp = true, read_only = ["DIR"]`, "write=/tmp", "ok", ""},
	{"private_devices", `private_devices = true, best_effort = BEST`, "stat=/dev/kmsg", "ENOENT", "any"},
	{"devices that stay", `private_devices = true, best_effort = BEST`, "read=/dev/null", "ok", ""},
	{"read-only private devices", `private_devices = true, read_only = ["/dev"]`, "stat=/dev/kmsg", "ENOENT", "any"},
	{"directories of these", `private_devices = true, read_only = ["/dev"]`, "write=/dev/shm", "EROFS", "any"},
	{"a read-only private tmp", `private_tmp = true, read_only = ["DIR", "/var/tmp"]`, "stat=VAR_TMP", "ENOENT", ""},
	{"private_network", `private_network = true`, "connect=PORT", "ECONNREFUSED", ""},
	{"loopback", `private_network = true`, "bind=0", "ok", ""},
}

// ofAnybody need no rights.
var ofAnybody = []probe{
	{"landlock.read", `landlock = { read = ["DIR/child", "/lib", "/lib64", "/usr", "/etc/ld.so.cache", "-/proc", "-/sys"] }`, "read=DIR/open", "EACCES", ""},
	{"landlock.read of others", `landlock = { read = ["/"] }`, "read=DIR/open", "ok", ""},
	{"landlock.write", `landlock = { write = ["DIR/log"] }`, "write=DIR/open", "EACCES", ""},
	{"landlock.write there", `landlock = { write = ["DIR/open"] }`, "write=DIR/open", "ok", ""},
	{"landlock.execute", `landlock = { execute = ["DIR/child", "/lib", "/lib64"] }`, "execute=DIR/open/file", "EACCES", ""},
	{"landlock.bind_tcp", `landlock = { bind_tcp = [1] }`, "bind=0", "EACCES", ""},
	{"landlock.bind_tcp there", `landlock = { bind_tcp = [0] }`, "bind=0", "ok", ""},
	{"landlock.connect_tcp", `landlock = { connect_tcp = [] }`, "connect=PORT", "EACCES", ""},
	{"landlock.connect_tcp there", `landlock = { connect_tcp = [PORT] }`, "connect=PORT", "ok", ""},
	{"syscalls.deny", `syscalls.deny = ["getpriority"]`, "priority", "EPERM", ""},
	{"syscalls.errno", `syscalls = { deny = ["getpriority"], errno = "EINVAL" }`, "priority", "EINVAL", ""},
	{"syscalls.allow", `syscalls.allow = ["@system-service"]`, "swapoff=/nowhere", "EPERM", "any"},
	{"syscalls.allow leaves others", `syscalls.allow = ["@system-service"]`, "write=DIR/open", "ok", ""},
	{"allow and deny", `syscalls = { allow = ["@system-service"], deny = ["getpriority"] }`, "priority", "EPERM", ""},
}

// ofRoot need rights that only a superd that is root has.
var ofRoot = []probe{
	{"pseudo-terminals", `private_devices = true`, "open=/dev/ptmx", "ok", ""},
	{"capabilities", `capabilities = ["CAP_DAC_OVERRIDE"]`, "chown=DIR/owned", "EPERM", ""},
	{"capabilities that stay", `capabilities = ["CAP_CHOWN"]`, "chown=DIR/owned", "ok", ""},
	{"no devices elsewhere", `private_devices = true`, "mknod=DIR/open", "EPERM", ""},
	{"settings of the kernel", `preset = "strict", private_tmp = false`, "open=/proc/sys/kernel/core_pattern", "EROFS", "any"},
	{"settings of the kernel by read_write", `preset = "strict", private_tmp = false, read_write = ["/proc/sys"]`, "open=/proc/sys/kernel/core_pattern", "ok", ""},
	{"interrupts", `preset = "strict", private_tmp = false`, "open=/proc/irq/default_smp_affinity", "EROFS", "any"},
	{"devices of the kernel", `preset = "strict", private_tmp = false`, "write=/sys", "EROFS", "any"},
	{"cgroups", `preset = "strict", private_tmp = false`, "write=/sys/fs/cgroup", "EROFS", "any"},
	{"own process", `preset = "strict", private_tmp = false`, "open=/proc/self/oom_score_adj", "ok", ""},
	{"a preset", `preset = "strict"
		sandbox.read_only = ["DIR"]`, "chown=DIR/owned", "EROFS", ""},
	{"a preset with a key of its own", `preset = "strict", capabilities = ["CAP_CHOWN"], private_tmp = false, read_write = ["DIR"]`, "chown=DIR/owned", "ok", ""},
}

// ofUser run as another user than superd.
var ofUser = []probe{
	{"pseudo-terminals", `private_devices = true`, "open=/dev/ptmx", "ok", ""},
	{"no_new_privileges", `no_new_privileges = true`, "suid=DIR/suid", "EPERM", ""},
	{"landlock sets no_new_privileges", `landlock = { connect_tcp = [] }`, "suid=DIR/suid", "EPERM", ""},
	{"ambient_capabilities", `ambient_capabilities = ["CAP_CHOWN"]`, "chown=DIR/owned", "ok", "EPERM"},
	{"ambient_capabilities within a preset", `preset = "strict", ambient_capabilities = ["CAP_CHOWN"], private_tmp = false, read_write = ["DIR"]`,
		"chown=DIR/owned", "ok", "EPERM"},
}

// newSite makes a site with what the probes need.
func newSite(t *testing.T) (s *harness.Site, replace func(string) string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s = harness.NewSite(t, "")
	for _, dir := range []string{"open", "open/in", "owned"} {
		s.Mkdir(dir)
		s.Chmod(dir, 0o777)
	}
	s.Link("link", "open")
	copyFile(t, "/proc/self/exe", s.Path("child"), 0o755)
	copyFile(t, "/bin/true", s.Path("open/file"), 0o755)
	copyFile(t, "/usr/bin/id", s.Path("suid"), 0o755|os.ModeSetuid)
	shared, err := os.MkdirTemp("/var/tmp", "superd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(shared); err != nil {
			t.Error(err)
		}
	})
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	return s, strings.NewReplacer("DIR", s.Dir, "PORT", port, "VAR_TMP", shared, "BEST", "false").Replace
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = harness.WriteFile(to, data, 0o755)
	}
	if err == nil {
		err = os.Chmod(to, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// try runs each probe as a program with its sandbox, and as one without. settings are further keys
// of each program.
func try(t *testing.T, probes []probe, settings string, options ...func(*exec.Cmd)) {
	t.Helper()
	s, replace := newSite(t)
	var b strings.Builder
	fmt.Fprintf(&b, "[defaults]\ntype = 'oneshot'\ndirectory = '/'\n%s\n", settings)
	program := func(name string, p probe) {
		fmt.Fprintf(&b, "[program.%s]\ncommand = [%q, 'probe', %q]\n", name, s.Path("child"), replace(p.try))
	}
	for i, p := range probes {
		program(fmt.Sprintf("with%d", i), p)
		keys := replace(p.sandbox)
		if first, rest, several := strings.Cut(keys, "\n"); several {
			fmt.Fprintf(&b, "sandbox.%s\n%s\n", first, rest)
		} else {
			fmt.Fprintf(&b, "sandbox = { %s }\n", keys)
		}
		program(fmt.Sprintf("without%d", i), p)
	}
	s.Configure(b.String())
	if len(options) > 0 {
		s.Chmod(".", 0o777)
	}
	s.Start(options...)
	for i, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			if p.without == "" {
				p.without = "ok"
			}
			s.T = t
			for name, want := range map[string]string{"with": p.want, "without": p.without} {
				name += strconv.Itoa(i)
				st := s.WaitStatus(name, "ended", func(st harness.Status) bool { return st.State == "exited" || st.State == "failed" })
				if st.Exit != nil && want != "" && want != "any" {
					s.WaitLog(name, "\n")
				}
				_, got, _ := strings.Cut(strings.TrimSpace(s.Log(name)), " ")
				if got != want && want != "any" {
					t.Errorf("%s: %s is %q, want %q; %s", name, p.try, got, want, st.Reason)
				}
			}
		})
	}
	s.T = t
}

// forRoot reports whether only root can do what p tries.
func forRoot(p probe) bool {
	return strings.HasPrefix(p.try, "write=/usr") || strings.HasPrefix(p.try, "write=/etc")
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	try(t, append(append(append([]probe{}, ofFiles...), ofAnybody...), ofRoot...), "")
}

func TestOtherUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	var all []probe
	for _, p := range append(append(append([]probe{}, ofFiles...), ofAnybody...), ofUser...) {
		if !forRoot(p) {
			all = append(all, p)
		}
	}
	try(t, all, "user = 'daemon'")
}

// TestWithoutRoot: a superd without rights makes a user namespace for what needs one.
func TestWithoutRoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	all := append([]probe{}, ofAnybody...)
	if err := tryUserNamespace(); err == nil {
		for _, p := range ofFiles {
			if !forRoot(p) {
				all = append(all, p)
			}
		}
	} else {
		t.Logf("no user namespaces: %v", err)
	}
	try(t, all, "", harness.As(65534))
}

// tryUserNamespace reports whether a user without rights may make a user namespace.
func tryUserNamespace() error {
	return exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "true").Run()
}

// TestRefused: what can't be enforced fails the start with key, cause and remedy, or is a warning.
func TestRefused(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		command = "sleep infinity"
		directory = "/"
		restart = "never"
		sandbox.read_only = ["DIR/none"]
		[program.refused]
		[program.warned]
		sandbox.best_effort = true
		sandbox.landlock.write = ["DIR/none", "/"]
		sandbox.capabilities = []
		[program.rootless]
		command = "/bin/sleep infinity"
		sandbox = { root_directory = "DIR/none", protect_system = "strict", best_effort = true }
		[program.all]
		sandbox = { read_only = [], read_write = ["DIR/all"] }
		`)
	s.Link("all", "/")
	d := s.Start()
	want := "apply sandbox.read_only " + s.Path("none") + `: no such file or directory: create it, or write "-` + s.Path("none") + `" if it may be missing`
	if st := s.WaitState("refused", "failed"); st.Reason != want {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
	want = "apply sandbox.read_write /: operation not supported: the root directory can be read-only only"
	if st := s.WaitState("all", "failed"); !strings.HasPrefix(st.Reason, want) {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
	pid := s.WaitState("warned", "running").Pid
	incomplete := func() string { return s.MustCtl("status", "--json", "warned").Out }
	for _, key := range []string{"sandbox.read_only", "sandbox.landlock.write"} {
		if got := incomplete(); !strings.Contains(got, key+" "+s.Path("none")) {
			t.Errorf("the status lacks a warning of %s: %s", key, got)
		}
	}
	if got := s.Field(pid, "status", "CapBnd"); strings.Trim(got, "0") != "" {
		t.Errorf("bounding set %s, want none", got)
	}
	if why := s.MustCtl("why", "warned").Out; !strings.Contains(why, "Its sandbox is incomplete: sandbox.read_only") {
		t.Errorf("why says %q", why)
	}
	s.WaitState("rootless", "running")
	for _, key := range []string{"root_directory", "protect_system", "read_only"} {
		if got := s.MustCtl("status", "--json", "rootless").Out; !strings.Contains(got, "sandbox."+key) {
			t.Errorf("without its root the status lacks a warning of %s: %s", key, got)
		}
	}
	before := incomplete()
	s.Kill(d.Pid, unix.SIGKILL)
	s.WaitStatus("warned", "adopted", func(st harness.Status) bool { return st.State == "running" && st.Pid == pid })
	if after := incomplete(); !strings.Contains(after, "sandbox.landlock.write "+s.Path("none")) {
		t.Errorf("after a crash the status is %s, was %s", after, before)
	}
}

// TestKernelLacks: without a feature of the kernel, each key that needs it fails the start and is
// named, or is a warning; superd doctor knows it before.
func TestKernelLacks(t *testing.T) {
	t.Parallel()
	needRoot(t)
	tests := []struct{ refused, errno, sandbox, want, finding string }{
		{"unshare", "EPERM", "private_network = true", "private_network: operation not permitted: superd lacks CAP_SYS_ADMIN", "namespaces"},
		{"unshare", "EPERM", "private_tmp = true", "private_tmp: operation not permitted: superd lacks CAP_SYS_ADMIN", "namespaces"},
		{"mount_setattr", "ENOSYS", `protect_system = "strict"`, "protect_system /: function not implemented: it needs Linux 5.12", "mount_setattr"},
		{"mount_setattr", "ENOSYS", `inaccessible = ["/opt"]`, "inaccessible /opt: function not implemented: it needs Linux 5.12", "mount_setattr"},
		{"openat2", "ENOSYS", `read_only = ["/opt"]`, "read_only /opt: function not implemented: it needs Linux 5.6 (openat2)", "openat2"},
		{"openat2", "EPERM", `read_write = ["/opt"]`, "read_write /opt: operation not permitted: it needs Linux 5.6 (openat2)", "openat2"},
		{"openat2", "EPERM", `landlock.write = ["/opt"]`, "landlock.write /opt: operation not permitted: it needs Linux 5.6 (openat2)", "openat2"},
		{"seccomp", "ENOSYS", `syscalls.deny = ["mount"]`, "syscalls: function not implemented: it needs a kernel with seccomp filters", "seccomp"},
		{"seccomp", "ENOSYS", `address_families = []`, "address_families: function not implemented: it needs a kernel with seccomp filters", "seccomp"},
		{"landlock", "ENOSYS", "landlock.bind_tcp = [80]", "landlock.bind_tcp: function not implemented: it needs Landlock 4", "landlock"},
		{"landlock", "ENOSYS", `landlock.read = ["/"]`, "landlock.read: function not implemented: it needs Landlock 2", "landlock"},
	}
	for _, tt := range tests {
		t.Run(tt.sandbox, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, fmt.Sprintf(`
				[defaults]
				command = "sleep infinity"
				directory = "/"
				restart = "never"
				sandbox.%s
				[program.refused]
				[program.warned]
				sandbox.best_effort = true
				`, tt.sandbox))
			s.Start(harness.Refusing(tt.refused, tt.errno))
			if st := s.WaitState("refused", "failed"); !strings.HasPrefix(st.Reason, "apply sandbox."+tt.want) {
				t.Errorf("reason %q, want %q", st.Reason, tt.want)
			}
			s.WaitState("warned", "running")
			if got := s.MustCtl("status", "--json", "warned").Out; !strings.Contains(got, `"sandbox_warnings":["sandbox.`+tt.want) {
				t.Errorf("the status has no warning of %s: %s", tt.want, got)
			}
			cmd := s.Command("doctor")
			harness.Refusing(tt.refused, tt.errno)(cmd)
			out, err := cmd.Output()
			key, _, _ := strings.Cut(tt.want, " ")
			_, after, found := strings.Cut(string(out), "lacks    "+tt.finding)
			if err != nil || !found || !strings.Contains(after, "sandbox."+strings.TrimSuffix(key, ":")) {
				t.Errorf("superd doctor does not say that %s has no effect: %v\n%s", key, err, out)
			}
		})
	}
}

// TestNoFileInMemory: a superd that may not make an executable file in memory says what to do.
func TestNoFileInMemory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.refused]
		command = "sleep infinity"
		directory = "/"
		restart = "never"
		sandbox.no_new_privileges = true
		`)
	s.Start(harness.Refusing("memfd_create", "EACCES"))
	want := "apply sandbox: make file in memory: permission denied: set the sysctl vm.memfd_noexec to 0 or 1"
	if st := s.WaitState("refused", "failed"); st.Reason != want {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
}

// TestNoUserNamespaces: without rights and without user namespaces, mounts are refused, and all
// else works.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[defaults]
		command = "sleep infinity"
		directory = "/"
		restart = "never"
		sandbox = { protect_system = "strict", no_new_privileges = true }
		[program.refused]
		[program.warned]
		sandbox.best_effort = true
		[program.ambient]
		sandbox = { protect_system = false, ambient_capabilities = ["CAP_KILL"] }
		`)
	s.Chmod(".", 0o777)
	// Only root can enter the directory of the binary that refuses calls
	s.Start(harness.Under(`exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`), harness.Refusing("clone3,clone_newuser", "EPERM"))
	want := "sandbox.protect_system: operation not permitted: superd needs CAP_SYS_ADMIN, or a kernel"
	if st := s.WaitState("refused", "failed"); !strings.HasPrefix(st.Reason, "apply "+want) {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
	pid := s.WaitState("warned", "running").Pid
	if got := s.MustCtl("status", "--json", "warned").Out; !strings.Contains(got, `"sandbox_warnings":["`+want) {
		t.Errorf("the status has no warning of %s: %s", want, got)
	}
	if got := s.Field(pid, "status", "NoNewPrivs"); got != "1" {
		t.Errorf("NoNewPrivs = %s, want 1", got)
	}
	want = "apply sandbox.ambient_capabilities"
	if st := s.WaitState("ambient", "failed"); !strings.HasPrefix(st.Reason, want) || !strings.Contains(st.Reason, "superd itself lacks it") {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
}

// TestOwnCapabilities: of what superd itself inherits and passes on, a program with capabilities
// has no more than these.
func TestOwnCapabilities(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, drop := range map[string]string{
		"root":    `exec setpriv --inh-caps=+net_raw "$@"`,
		"ambient": `exec setpriv --reuid=65534 --clear-groups --inh-caps=+net_raw,+setpcap --ambient-caps=+net_raw,+setpcap "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.NewSite(t, `
				[defaults]
				command = "sleep infinity"
				directory = "/"
				[program.with]
				sandbox.capabilities = []
				[program.some]
				sandbox.capabilities = ["CAP_NET_RAW"]
				[program.without]
				`)
			if name != "root" {
				s.Chmod(".", 0o777)
			}
			s.Start(harness.Under(drop))
			const netRaw = 1 << 13
			for program, want := range map[string]uint64{"with": 0, "some": 0, "without": netRaw} {
				pid := s.WaitState(program, "running").Pid
				for _, key := range []string{"CapInh", "CapPrm", "CapAmb"} {
					got, err := strconv.ParseUint(s.Field(pid, "status", key), 16, 64)
					if name == "root" && (key == "CapAmb" || key == "CapPrm" && program == "some") {
						continue // root gets what the bounding set allows, and no ambient ones
					}
					if err != nil || got&netRaw != want {
						t.Errorf("%s of %s: %#x, %v; want CAP_NET_RAW as in %#x", key, program, got, err, want)
					}
				}
			}
		})
	}
}

// TestNamespaceWithoutRights: a user namespace without rights, as under AppArmor, is like none: the
// program does not run in it.
func TestNamespaceWithoutRights(t *testing.T) {
	t.Parallel()
	needRoot(t)
	if err := tryUserNamespace(); err != nil {
		t.Skipf("no user namespaces: %v", err)
	}
	s := harness.NewSite(t, `
		[defaults]
		command = "sleep infinity"
		directory = "/"
		restart = "never"
		sandbox.protect_system = "strict"
		[program.refused]
		[program.warned]
		sandbox.best_effort = true
		`)
	s.Chmod(".", 0o777)
	// Where /proc is read-only the namespace gets no users
	without := harness.Under(`exec unshare --mount sh -c 'mount -o remount,bind,ro /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"' sh "$@"`)
	s.Start(without)
	for name, option := range map[string]func(*exec.Cmd){
		"lacks    namespaces": without,
		"works    namespaces": harness.Under(`exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`),
	} {
		cmd := s.Command("doctor")
		option(cmd)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), name) {
			t.Errorf("superd doctor does not say %q: %v\n%s", name, err, out)
		}
	}
	want := "apply sandbox.protect_system: read-only file system: superd needs CAP_SYS_ADMIN, or a kernel"
	if st := s.WaitState("refused", "failed"); !strings.HasPrefix(st.Reason, want) {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
	pid := s.WaitState("warned", "running").Pid
	if got := s.MustCtl("status", "--json", "warned").Out; !strings.Contains(got, `"sandbox_warnings":["sandbox.protect_system`) {
		t.Errorf("the status has no warning: %s", got)
	}
	own, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid)); err != nil || got != own {
		t.Errorf("the program is in the user namespace %s, want %s; %v", got, own, err)
	}
}

// TestDescriptors: a program with a sandbox gets its readiness descriptor, also where the shim has
// others, and none of the shim's.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	needRoot(t)
	var b strings.Builder
	fmt.Fprint(&b, "[defaults]\ndirectory = '/'\nsandbox.preset = 'strict'\n")
	for fd := 3; fd <= 6; fd++ {
		fmt.Fprintf(&b, "[program.fd%d]\ncommand = ['sh', '-c', 'echo >&%d; exec sleep infinity']\nready.fd = %d\nlog.stderr = 'separate'\n", fd, fd, fd)
	}
	s := harness.NewSite(t, b.String())
	s.Start()
	for fd := 3; fd <= 6; fd++ {
		pid := s.WaitState(fmt.Sprintf("fd%d", fd), "running").Pid
		// When sleep has read its locale
		harness.Until(t, fmt.Sprintf("fd%d has no other descriptor", fd), func() bool {
			for number := range s.FDs(pid) {
				if number > 2 && number != fd {
					return false
				}
			}
			return true
		})
	}
}

// TestOpenFilesLimit: a program with a filter has superd's limit on open files, not what Go raises
// that to in the shim.
func TestOpenFilesLimit(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		type = "oneshot"
		command = ["sh", "-c", "ulimit -n"]
		directory = "/"
		[program.with]
		sandbox.syscalls.allow = ["@system-service"]
		[program.own]
		sandbox.syscalls.allow = ["@system-service"]
		limits.nofile = "500:600"
		[program.without]
		`)
	s.Start(harness.Under(`ulimit -Sn 400 && exec "$@"`))
	for name, want := range map[string]string{"with": "400\n", "own": "500\n", "without": "400\n"} {
		s.WaitState(name, "exited")
		if got := s.WaitLog(name, "\n"); got != want {
			t.Errorf("limit of %s is %q, want %q", name, got, want)
		}
	}
}

// TestPrivateTmp: the processes of a run share it, and it is gone after the run, also if superd was
// killed meanwhile.
func TestPrivateTmp(t *testing.T) {
	t.Parallel()
	needRoot(t)
	name := "tmp" + strconv.Itoa(os.Getpid())
	s := harness.NewSite(t, `
		[program.`+name+`]
		command = ["sh", "-c", "cat /tmp/hook; echo; test -d /var/tmp && exec sleep infinity"]
		directory = "/"
		user = "daemon"
		pre_start = [["sh", "-c", "echo of the hook > /tmp/hook"]]
		sandbox.private_tmp = true
		`)
	d := s.Start()
	s.WaitLog(name, "of the hook\n\n")
	s.WaitState(name, "running")
	dirs := func() []string {
		found, err := filepath.Glob("/tmp/superd-" + name + "-*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := dirs()
	if len(first) != 1 {
		t.Fatalf("directories of private_tmp: %q", first)
	}
	if info, err := os.Stat(first[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of %s: %v, %v", first[0], info, err)
	}
	s.Kill(d.Pid, unix.SIGKILL)
	s.MustCtl("restart", name)
	s.WaitState(name, "running")
	harness.Until(t, "the first one is gone", func() bool {
		now := dirs()
		return len(now) == 1 && now[0] != first[0]
	})
	s.MustCtl("stop", name)
	harness.Until(t, "the second one is gone", func() bool { return len(dirs()) == 0 })
}

// TestPlantedLink: a symbolic link that a process of the run makes in its private tmp leads superd
// nowhere at the start of the next one.
func TestPlantedLink(t *testing.T) {
	t.Parallel()
	needRoot(t)
	outside := filepath.Join("/run", "superd-planted-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(outside); err != nil {
			t.Error(err)
		}
	})
	inside := filepath.Join("/tmp", filepath.Base(outside))
	if err := os.MkdirAll(filepath.Join(inside, "made"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(inside); err != nil {
			t.Error(err)
		}
	})
	s := harness.NewSite(t, `
		[program.planted]
		command = "sleep infinity"
		directory = "/"
		restart = "never"
		pre_start = [["sh", "-c", "mv $0 $0.old && ln -s $1 $0", "`+inside+`", "`+outside+`"]]
		sandbox = { private_tmp = true, read_only = ["`+inside+`/made"] }
		`)
	s.Start()
	want := "apply sandbox.read_only " + inside + "/made: too many levels of symbolic links: a symbolic link there is the program's"
	if st := s.WaitState("planted", "failed"); !strings.HasPrefix(st.Reason, want) {
		t.Errorf("reason %q, want %q", st.Reason, want)
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("superd made %v outside: %v", made, err)
	}
}

// TestLinksOfTheProgram: a program can't choose by a symbolic link what the sandbox of its next run
// opens.
func TestLinksOfTheProgram(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const daemon = 1
	keys := []string{"read_write", "read_only", "inaccessible", "root_directory", "landlock.write"}
	s := harness.NewSite(t, "")
	for _, dir := range []string{"own", "own/real", "other", "other/in"} {
		s.Mkdir(dir)
	}
	s.Link("own/link", "../other")
	s.Link("own/chain", "real/../link")
	s.Link("own/trusted", s.Path("other"))
	for _, name := range []string{"own", "own/real", "own/link"} {
		if err := os.Lchown(s.Path(name), daemon, daemon); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	fmt.Fprint(&b, "[defaults]\ncommand = ['/bin/sleep', 'infinity']\ndirectory = '/'\nrestart = 'never'\nuser = 'daemon'\n")
	for i, key := range keys {
		for _, name := range []string{"link", "chain"} {
			value := strconv.Quote(s.Path("own/" + name + "/in"))
			if key != "root_directory" {
				value = "[" + value + "]"
			}
			fmt.Fprintf(&b, "[program.%s%d]\nsandbox.%s = %s\n", name, i, key, value)
		}
	}
	fmt.Fprintf(&b, "[program.trusted]\nsandbox.read_only = ['/']\nsandbox.read_write = [%q]\n", s.Path("own/trusted/in"))
	fmt.Fprintf(&b, "[program.optional]\nsandbox.read_write = [%q]\n", "-"+s.Path("own/link/in"))
	s.Configure(b.String())
	s.Start()
	refused := func(name, key, path string) {
		t.Helper()
		want := "apply sandbox." + key + " " + s.Path(path) + ": too many levels of symbolic links: a symbolic link there is the program's"
		if st := s.WaitState(name, "failed"); !strings.HasPrefix(st.Reason, want) {
			t.Errorf("reason %q, want %q", st.Reason, want)
		}
	}
	for i, key := range keys {
		refused(fmt.Sprint("link", i), key, "own/link/in")
		refused(fmt.Sprint("chain", i), key, "own/chain/in")
	}
	refused("optional", "read_write", "own/link/in")
	s.WaitState("trusted", "running")
}

// TestHungPath: a path of a sandbox on a file system that hangs fails the start at start_timeout,
// and is named.
func TestHungPath(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, "")
	path := s.HungMount("hung") + "/data"
	s.Mkdir("root")
	s.HungMount("root/hung")
	s.Link("root/link", "/hung/data")
	s.Configure(`
		[defaults]
		command = ["/bin/sleep", "infinity"]
		directory = "/"
		restart = "never"
		start_timeout = "500ms"
		[program.mount]
		sandbox.read_write = ["` + path + `"]
		[program.landlock]
		sandbox.landlock.write = ["` + path + `"]
		[program.root]
		sandbox.root_directory = "` + path + `"
		[program.inside]
		sandbox = { root_directory = "DIR/root", read_write = ["/link"] }
		[program.other]
		sandbox.preset = "strict"
		`)
	s.Start()
	s.WaitState("other", "running")
	for program, where := range map[string]string{
		"mount": "read_write " + path, "landlock": "landlock.write " + path, "root": "root_directory " + path,
		"inside": "read_write " + s.Path("root/link"),
	} {
		st := s.WaitState(program, "failed")
		if want := "apply sandbox." + where + ": no answer within start_timeout 500ms"; !strings.HasPrefix(st.Reason, want) {
			t.Errorf("reason %q, want %q", st.Reason, want)
		}
	}
}

// TestDirectoriesOfTheProgram: a program writes to the directories that superd makes for it, also
// where all else is read-only, and with a superd that is killed meanwhile.
func TestDirectoriesOfTheProgram(t *testing.T) {
	t.Parallel()
	needRoot(t)
	name := "superd-sandbox-" + strconv.Itoa(os.Getpid())
	run, state := filepath.Join("/run", name), filepath.Join("/var/lib", name)
	t.Cleanup(func() {
		for _, path := range []string{run, state} {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	})
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "echo 1 > $0/file && echo 2 > $1/file && ! echo 3 > /var/lib/file && echo done; exec sleep infinity", "`+run+`", "`+state+`"]
		directory = "/"
		user = "daemon"
		runtime_directory = "`+name+`"
		state_directory = "`+name+`"
		sandbox.preset = "strict"
		`)
	d := s.Start()
	s.WaitLog("web", "Read-only file system\ndone\n")
	s.Kill(d.Pid, unix.SIGKILL)
	s.MustCtl("stop", "web")
	if _, err := os.Stat(run); !os.IsNotExist(err) {
		t.Errorf("the runtime directory after the stop: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(state, "file")); err != nil || string(text) != "2\n" {
		t.Errorf("the state is %q, %v", text, err)
	}
}

// TestRootDirectory: a program in a root of its own reads its files there, and reports that it is
// ready.
func TestRootDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.inside]
		command = ["/superd", "run", "-c", "/conf/superd.toml", "--no-keeper"]
		ready.notify = true
		environment = { PATH = "/" }
		[program.inside.sandbox]
		root_directory = "DIR/root"
		protect_system = "strict"
		read_write = ["/run"]
		private_devices = true
		[program.missing]
		command = "/bin/sh"
		restart = "never"
		sandbox.root_directory = "DIR/root"
		`)
	for _, dir := range []string{"root", "root/conf", "root/run", "root/proc", "root/dev", "root/sys"} {
		s.Mkdir(dir)
	}
	superd, err := exec.LookPath("superd")
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, superd, s.Path("root/superd"), 0o755)
	s.Write("root/conf/superd.toml", "[superd]\nruntime_dir = '/run'\nlog_dir = '/run'\n[program.x]\ncommand = ['/superd', 'version']\ntype = 'oneshot'\n")
	s.Start()
	pid := s.WaitState("inside", "running").Pid
	if got, err := os.Readlink(fmt.Sprintf("/proc/%d/root", pid)); err != nil || got != "/" {
		t.Logf("root of the program: %s, %v", got, err) // a mount namespace of its own
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/conf/superd.toml", pid)); err != nil {
		t.Errorf("the program's root is not root_directory: %v", err)
	}
	if err := unix.Access(fmt.Sprintf("/proc/%d/root/proc/sys/kernel/core_pattern", pid), unix.W_OK); err != unix.EROFS {
		t.Errorf("the program can change settings of the kernel: %v, want EROFS", err)
	}
	if made, err := os.ReadDir(s.Path("root/proc")); err != nil || len(made) > 0 {
		t.Errorf("places made on the host below root/proc: %v, %v", made, err)
	}
	if st := s.WaitState("missing", "failed"); !strings.Contains(st.Reason, "it is not there in the sandbox") {
		t.Errorf("reason %q", st.Reason)
	}
}
