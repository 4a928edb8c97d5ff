package pidfd

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An Attr says what to spawn and what the new process gets.
type Attr struct {
	Path string   // path of the executable; PATH is not searched
	Args []string // arguments, beginning with the program's name
	Env  []string // complete environment; nil is an empty one
	// KEY= of a variable in Env that gets the child's pid as its value, "": none. If [Portable] is
	// set, the variable stays as it is
	PidVariable string
	// Working directory, "" for this process's; base of a relative Path
	Dir string
	// Descriptors that become its 0, 1, 2…; -1 leaves a number closed. The caller still owns them.
	Files      []int
	Credential *syscall.Credential // user and groups, nil for this process's
	// It starts in a user namespace of its own, in which no user is known yet. It has all
	// capabilities there, also after its exec. Credential is nil then
	UserNamespace bool
	// Open cgroup v2 directory in which it starts (Linux 5.7), -1: that of this process
	CgroupFD int
	// Its limit on open files, see InheritedOpenFiles; nil: this process's
	OpenFiles *unix.Rlimit
	Slots     *Slots // passes Files to the child; nil: none
	// Number of descriptors for which its table has room from the start, see MakeRoom; 0: default
	Room     int
	Progress *Progress // shows the child to other goroutines meanwhile; may be nil
	// Memory for the result of Spawn, such as a field of a larger object; nil: allocated
	Process *Process
}

// Spawn starts a process and returns once it runs its own program, or with the error that prevented
// it, which wraps the errno; then no process is left. Calls may be concurrent.
//
// The process leads a session of its own, without a terminal. Signals that Go handles have their
// defaults in it; inherited blocked and ignored signals are passed on, and so are those of
// signal.Ignore. For a clean start call signals.ResetInherited in this process first. Of this
// process's descriptors it gets Files and all that are not close-on-exec, see
// signals.MarkInheritedCloexec.
//
// Spawn blocks, like any system call, while the kernel opens the executable. If a file system may
// hang, open the executable and the directory first.
//
// The child of a failed exec is a zombie until Spawn reaps it by pid, and a child may end before
// Spawn returns. So a caller of Peek must skip a child whose pid a Progress owns, and call it again
// after that.
//
// On amd64, arm64 and riscv64 Spawn has its own fork: syscall.ForkExec copies the whole descriptor
// table, learns of a failed exec through a pipe, and makes the whole process wait for an exec that
// hangs. On other architectures, and with the build tag superd_forkexec, Spawn uses
// syscall.ForkExec; see [Portable].
//
// Source: clone(2), vfork(2), execve(2).
func Spawn(a *Attr) (*Process, error) {
	child, err := a.spawn()
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", a.Path, err)
	}
	return child, nil
}

// InheritedOpenFiles returns the limit on open files that this process was started with: Go raises
// the soft one for itself, not for programs that it starts. Call it at the start, before other
// goroutines open files.
//
// The runtime does not export the original limit, but restores it before an exec, so this makes an
// exec fail.
func InheritedOpenFiles() (unix.Rlimit, error) {
	var raised, inherited unix.Rlimit
	if err := prlimitFiles(nil, &raised); err != nil {
		return inherited, fmt.Errorf("read limit of open files: %w", err)
	}
	syscall.Exec("", nil, nil) // fails, since there is no file without a name
	err := prlimitFiles(&raised, &inherited)
	if err != nil {
		return inherited, fmt.Errorf("set limit of open files: %w", err)
	}
	return inherited, nil
}

// prlimitFiles bypasses package syscall, which would pass the limit on to children.
func prlimitFiles(limit, old *unix.Rlimit) error {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
