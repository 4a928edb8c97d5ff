package pidfd

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// An Attr says what to spawn and what the new process gets.
type Attr struct {
	Path       string              // the executable; not searched for in PATH
	Args       []string            // with the program's name as the first
	Env        []string            // all of it: nil is an empty environment
	Dir        string              // the working directory, "" for ours; a relative Path is looked up in it
	Files      []int               // our descriptors that become its 0, 1, 2…; -1 leaves a number closed. They stay ours
	Credential *syscall.Credential // user and groups, nil for ours
	CgroupFD   int                 // an open cgroup v2 directory that it is born in (Linux 5.7), -1: ours
}

// Spawn starts a process and returns once it runs its own program, or with the error that kept it
// from doing so, which wraps the errno; then nothing is left of it. Calls may run side by side.
//
// The process leads a session of its own, without a terminal. Signals that Go handles are at their
// defaults in it, while what this process has inherited as blocked or ignored is passed on (and so
// is what signal.Ignore set): a clean start needs signals.ResetInherited in this process first. Of
// our descriptors it gets Files and each that is not close-on-exec, see signals.MarkInheritedCloexec.
//
// Spawn blocks while the kernel opens the executable, and while it does, the runtime cannot stop
// the thread: a garbage collection meanwhile halts the whole program. A caller with doubts about a
// file system opens the executable and the directory by itself first.
//
// The child of a failed exec is a zombie for a moment, until syscall.ForkExec reaps it by pid; and a
// child may end before Spawn has returned. So a sweep by Peek leaves alone whom it does not know
// while a Spawn is under way, and looks again after it.
//
// Source: clone(2), execve(2), src/syscall/exec_linux.go of Go.
func Spawn(a *Attr) (*Process, error) {
	fd := -1
	sys := &syscall.SysProcAttr{Setsid: true, Credential: a.Credential, PidFD: &fd}
	if a.CgroupFD >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, a.CgroupFD
	}
	files := make([]uintptr, len(a.Files))
	for i, f := range a.Files {
		files[i] = uintptr(f)
	}
	pid, err := syscall.ForkExec(a.Path, a.Args, &syscall.ProcAttr{Dir: a.Dir, Env: a.Env, Files: files, Sys: sys})
	if err != nil {
		return nil, fmt.Errorf("spawn %s: %w", a.Path, err)
	}
	if fd < 0 {
		// Without CLONE_PIDFD (Linux 5.2) there is no way to supervise it. It is our unreaped child,
		// so the pid is still its own.
		cause := errors.Join(ErrUnsupported, unix.Kill(pid, unix.SIGKILL))
		if _, err := waitid(unix.P_PID, pid, unix.WEXITED, nil); err != nil {
			cause = errors.Join(cause, err)
		}
		return nil, fmt.Errorf("spawn %s: get a pidfd: %w", a.Path, cause)
	}
	return &Process{pid: pid, fd: fd}, nil
}
