package doctor

import (
	"errors"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/execshim"
	"superd/internal/privilege"
	"superd/pidfd"
	"superd/sandbox"
	"superd/sandbox/shim"
)

// Keys of a sandbox by what they need.
var (
	mountKeys = []string{
		"sandbox.protect_system", "sandbox.read_only", "sandbox.read_write", "sandbox.inaccessible",
		"sandbox.private_tmp", "sandbox.private_devices", "sandbox.root_directory",
	}
	networkKeys = []string{"sandbox.private_network"}
	callKeys    = []string{"sandbox.syscalls", "sandbox.address_families", "sandbox.deny_write_execute"}
)

// sandboxes checks what sandboxes depend on.
func sandboxes() []Finding {
	built := Finding{Name: "exec shim", Works: true, For: "apply sandboxes"}
	if err := shim.Built(); err != nil {
		built.Works, built.Error = false, err.Error()
		built.Keys, built.Remedy = []string{"sandbox"}, "build superd by make build"
	}
	filters := try("seccomp", "filter the system calls of a program", hasFilters)
	if !filters.Works {
		filters.Keys, filters.Remedy = callKeys, "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return []Finding{built, namespaces(), pathsInRoot(), mountAttributes(), filters, landlock()}
}

// namespaces checks whether a program can get namespaces of its own.
func namespaces() Finding {
	f := Finding{Name: "namespaces", Works: true, For: "give a program mounts and a network of its own"}
	if err := tryNamespaces(); err != nil {
		f.Works, f.Error = false, err.Error()
		f.Keys = append(networkKeys, mountKeys...)
		f.Remedy = "run superd with CAP_SYS_ADMIN, or let its user make user namespaces"
	} else if privilege.Administer() && !privilege.AdministerNetworks() {
		f.Works, f.Error = false, "superd lacks CAP_NET_ADMIN, and can't start a loopback device"
		f.Keys, f.Remedy = networkKeys, "run superd with CAP_NET_ADMIN"
	}
	return f
}

func tryNamespaces() error {
	if privilege.Administer() {
		return onThread(func() error { return unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET) })
	}
	if os.Geteuid() == 0 {
		return errors.New("superd lacks CAP_SYS_ADMIN")
	}
	return tryUserNamespace()
}

// tryUserNamespace lets the exec shim make namespaces as for a program. A kernel may make a user
// namespace, but give no rights in it.
func tryUserNamespace() error {
	plan := sandbox.Plan{
		UserNamespace: &sandbox.IDs{UID: os.Geteuid(), GID: os.Getegid()}, Network: true, Mounts: true,
		Paths: []sandbox.Path{{Key: "read_write", Path: "/dev", View: sandbox.ViewReadWrite}},
	}
	binary, err := shim.Open()
	if err != nil {
		return err
	}
	defer unix.Close(binary)
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	read := os.NewFile(uintptr(report[0]), "report")
	defer read.Close()
	// The root can't be executed, so the shim ends when all else is done.
	step := execshim.Step{Sandbox: plan.Fields(), Dir: "/", Path: "/", Args: []string{"/"}}
	args, env := step.Command()
	child, err := pidfd.Spawn(&pidfd.Attr{
		Path: execshim.SandboxBinary, Args: args, Env: env, CgroupFD: -1, UserNamespace: true,
		Files: []int{-1, -1, -1, report[1], -1, binary},
	})
	unix.Close(report[1])
	if err != nil {
		return err
	}
	defer child.Close()
	said, readErr := io.ReadAll(read)
	if _, err := child.Await(); err != nil || readErr != nil {
		return errors.Join(err, readErr)
	}
	_, err = execshim.Result(said)
	if failed, ok := errors.AsType[*execshim.Error](err); ok {
		if failed.Stage == execshim.StageExecute {
			return nil
		}
		return failed.Errno
	}
	return err
}

// pathsInRoot checks whether paths of a sandbox can be opened.
func pathsInRoot() Finding {
	f := try("openat2", "open the paths of a program's sandbox", func() error {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
		return closed(unix.Openat2(unix.AT_FDCWD, "/", &how))
	})
	if !f.Works {
		f.Keys = append([]string{"sandbox.landlock.read", "sandbox.landlock.write", "sandbox.landlock.execute"}, mountKeys...)
		f.Remedy = allow + ", or use Linux 5.6 or newer"
	}
	return f
}

// mountAttributes checks whether mounts can be made read-only with all that is below them.
func mountAttributes() Finding {
	f := try("mount_setattr", "make paths read-only for a program", func() error {
		err := unix.MountSetattr(-1, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err == unix.EBADF || err == unix.EPERM { // it is there, and has its own rule for rights
			return nil
		}
		return err
	})
	if !f.Works {
		f.Keys, f.Remedy = mountKeys, allow+", or use Linux 5.12 or newer"
	}
	return f
}

func hasFilters() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errno
	}
	return nil
}

// landlock checks which rules of Landlock the kernel has.
func landlock() Finding {
	f := Finding{Name: "landlock", Works: true, For: "restrict paths and TCP ports of a program"}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	const needsTCP, needsWrite, needsRefer = 4, 3, 2
	switch {
	case errno != 0:
		f.Error, version = errno.Error(), 0
	case version < needsTCP:
		f.Error = "the kernel has an older version of it"
	}
	for _, of := range []struct {
		version uintptr
		keys    []string
	}{
		{needsRefer, []string{"sandbox.landlock.read", "sandbox.landlock.execute"}},
		{needsWrite, []string{"sandbox.landlock.write"}},
		{needsTCP, []string{"sandbox.landlock.bind_tcp", "sandbox.landlock.connect_tcp"}},
	} {
		if version < of.version {
			f.Works, f.Keys = false, append(f.Keys, of.keys...)
			f.Remedy = "use Linux 6.7 or newer with landlock in its list of security modules"
		}
	}
	return f
}

// onThread calls f on a thread that ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- f()
	}()
	return <-done
}
