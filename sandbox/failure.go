package sandbox

import (
	"fmt"
	"strings"
	"syscall"
)

// A Failure is a key that could not be enforced.
type Failure struct {
	Key    string // below the table sandbox: "read_only"
	Object string // path, port or name; may be empty
	Errno  syscall.Errno
	Rights Rights
	// OpenRefused: openat2 is missing in the kernel, or refused by a filter of system calls
	OpenRefused bool
}

// Rights say with which rights a key was not enforced.
type Rights string

// The rights. A superd that is root makes no user namespace.
const (
	RightsOfUser      Rights = ""
	RightsOfRoot      Rights = "root"
	RightsOfNamespace Rights = "namespace" // a user namespace that gives none
)

// Error returns the key, what is missing, and what to do.
func (f *Failure) Error() string { return f.Place() + ": " + f.Cause().Error() }

// Unwrap returns the error number.
func (f *Failure) Unwrap() error { return f.Errno }

// Place returns the key with its object.
func (f *Failure) Place() string {
	if f.Object == "" {
		return "sandbox." + f.Key
	}
	return "sandbox." + f.Key + " " + f.Object
}

// Cause returns what is missing, and what to do.
func (f *Failure) Cause() error {
	if r := f.remedy(); r != "" {
		return fmt.Errorf("%w: %s", f.Errno, r)
	}
	return f.Errno
}

const (
	needAdmin = "superd needs CAP_SYS_ADMIN, or a kernel, container and security module that let " +
		"it make user namespaces"
	needRoot   = "superd lacks CAP_SYS_ADMIN: let its container or service have it"
	needMounts = "it needs Linux 5.12 (mount_setattr), and a container or service that does not " +
		"refuse its calls"
	needOpen = "it needs Linux 5.6 (openat2), and a container or service that does not refuse its " +
		"calls, as containers with an old seccomp profile and RestrictSUIDSGID= of systemd do"
	needNetwork = "superd lacks CAP_SYS_ADMIN or CAP_NET_ADMIN: let its container or service have both"
	ownLink     = "a symbolic link there is the program's, or leads in a circle: name the path that " +
		"it leads to, or give it to root (chown -h root)"
	needSetpcap  = "superd needs CAP_SETPCAP to take capabilities away"
	lacksAmbient = "superd itself lacks it, or sandbox.capabilities does: run superd as root, or with it"
)

// remedy returns what to do; "" if the error number says it all.
func (f *Failure) remedy() string {
	if f.OpenRefused {
		return needOpen
	}
	key, _, _ := strings.Cut(f.Key, ".")
	switch key {
	case "capabilities":
		return needSetpcap
	case "ambient_capabilities":
		return lacksAmbient
	case "no_new_privileges":
		return "it needs Linux 3.5"
	case "landlock":
		return f.landlockRemedy()
	case "syscalls", "address_families", "deny_write_execute":
		return f.syscallsRemedy()
	}
	if f.Rights == RightsOfNamespace {
		return needAdmin
	}
	switch f.Errno {
	case syscall.ENOENT:
		return `create it, or write "-` + f.Object + `" if it may be missing`
	case syscall.ENOSYS:
		return needMounts
	case syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EUSERS:
		switch {
		case f.Rights == RightsOfRoot && key == "private_network":
			return needNetwork
		case f.Rights == RightsOfRoot:
			return needRoot
		}
		return needAdmin
	case syscall.ELOOP:
		return ownLink
	case syscall.ENOTSUP:
		return "the root directory can be read-only only: name directories in it"
	case syscall.EROFS:
		return "the program needs a file or directory there to mount on: make it"
	}
	return ""
}

func (f *Failure) landlockRemedy() string {
	switch f.Errno {
	case syscall.ENOENT:
		return `create it, or write "-` + f.Object + `" if it may be missing`
	case syscall.ELOOP:
		return ownLink
	case syscall.EPERM:
		return "set sandbox.no_new_privileges = true"
	case syscall.ENOSYS, syscall.EOPNOTSUPP:
		switch f.Key {
		case "landlock.bind_tcp", "landlock.connect_tcp":
			return "it needs Landlock 4 (Linux 6.7) in the kernel's list of security modules"
		case "landlock.write":
			return "it needs Landlock 3 (Linux 6.2) in the kernel's list of security modules"
		}
		return "it needs Landlock 2 (Linux 5.19) in the kernel's list of security modules"
	}
	return ""
}

func (f *Failure) syscallsRemedy() string {
	switch f.Errno {
	case syscall.EACCES, syscall.EPERM:
		return "set sandbox.no_new_privileges = true"
	case syscall.ENOTSUP:
		return "superd can't filter these system calls on this architecture: remove the key"
	}
	return "it needs a kernel with seccomp filters"
}
