package harness

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoCgroups is an option of Start: superd finds the processes of a program by process scans.
func NoCgroups(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--cgroups=never") }

const noKeeper = "--no-keeper"

// NoKeeper is an option of Start: superd is the supervisor alone.
func NoKeeper(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, noKeeper) }

// Under is an option of Start: a shell runs the script and then executes superd in its place.
func Under(script string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", script + "\nexec \"$@\"", "sh", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
}

// AsInit is an option of Start: superd is PID 1 of a new PID namespace, in which a shell has run
// the script before. Pids in the status are not those that the test sees.
func AsInit(script string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		Under("mount --make-rprivate / && mount -t proc proc /proc || exit\n" + script)(cmd)
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	}
}

// LimitFiles sets the limit of open files of a running process.
func (s *Site) LimitFiles(pid int, limit uint64) {
	s.T.Helper()
	var old unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: old.Max}, nil)
	}
	if err != nil {
		s.T.Fatalf("limit open files of process %d: %v", pid, err)
	}
}

// LimitProcesses sets the soft limit of processes of a running process of the user uid.
func (s *Site) LimitProcesses(pid int, uid uint32, limit int) {
	s.T.Helper()
	// As that user: to change the limits of another user takes CAP_SYS_RESOURCE, which root in a
	// container lacks.
	cmd := exec.Command("prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--nproc=%d:", limit))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := cmd.CombinedOutput(); err != nil {
		s.T.Fatalf("limit processes of process %d: %v: %s", pid, err, out)
	}
}

// As is an option of Start: superd runs as this user, and its group of the same number.
func As(uid uint32) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) { cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid} }
}
