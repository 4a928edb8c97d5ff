package pidfd

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// If a kernel lacks a system call for pidfds, or a filter refuses it (seccomp profiles from before
// Linux 5.1, sandboxes), there are replacements:
//
//   - pidfd_open: the process's directory in /proc is opened. Like a pidfd it always refers to the
//     same process, but can't be watched by epoll, which returns EPERM.
//   - pidfd_send_signal: kill(2), after a check through the descriptor that the process has its
//     pid. For a child that is safe, since only this process reaps it. For another process the pids
//     would have to wrap around within those microseconds.
//
// No filter affects a child's pidfd, which comes from its clone.

// refused reports whether a system call is missing or refused. EPERM may have another cause, which
// the replacement then reports.
func refused(err error) bool { return err == unix.ENOSYS || err == unix.EPERM }

// openDirectory replaces Open without pidfd_open.
func openDirectory(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, unix.EINVAL
	}
	path := "/proc/" + strconv.Itoa(pid)
	// O_PATH is not sufficient for signals
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil, unix.ESRCH
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	p := &Process{pid: int32(pid), fd: int32(fd), directory: true}
	// Threads have such a directory, too.
	if leader, err := p.field("status", "Tgid"); err != nil || leader != pid {
		unix.Close(fd)
		return nil, unix.ESRCH
	}
	return p, nil
}

// signal sends sig; the error is ESRCH if the process was reaped.
func (p *Process) signal(sig syscall.Signal) error {
	err := sendSignal(p.fd, sig, 0)
	if !refused(err) {
		return err
	}
	if err := p.holdsPid(); err != nil || sig == 0 {
		return err
	}
	return unix.Kill(int(p.pid), sig)
}

// holdsPid returns ESRCH if the process was reaped, so that its pid may be another's.
func (p *Process) holdsPid() error {
	if p.exit != nil || p.fd < 0 {
		return unix.ESRCH
	}
	var pid int
	var err error
	if p.directory {
		pid, err = p.field("status", "Pid")
	} else {
		// -1: reaped
		pid, err = fieldOf(unix.AT_FDCWD, "/proc/self/fdinfo/"+strconv.Itoa(int(p.fd)), "Pid")
	}
	switch {
	case err == nil && pid == 0: // in another PID namespace
		return unix.EPERM
	case err == nil && pid != int(p.pid):
		return unix.ESRCH
	}
	return err
}

// field returns a number from a file of the process's directory, ESRCH if the process was reaped.
func (p *Process) field(file, key string) (int, error) { return fieldOf(int(p.fd), file, key) }

// fieldOf returns a number from a kernel file with lines "key:\tnumber".
func fieldOf(dir int, file, key string) (int, error) {
	fd, err := unix.Openat(dir, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return 0, unix.ESRCH
	}
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var buf [statBytes]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(buf[:n]) {
		if name, value, _ := bytes.Cut(line, []byte(":")); string(name) == key {
			return strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	return 0, errors.New(file + " has no field " + key)
}

// ended is Ended without a pidfd.
func (p *Process) ended() bool {
	var buf [statBytes]byte
	fd, err := unix.Openat(int(p.fd), "stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT || err == unix.ESRCH
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return err == unix.ESRCH
	}
	// The state is the third field, after the name, which may hold parentheses itself. A process
	// whose first thread has ended is a zombie by its state, but lives while it has other threads
	// (field 20).
	end := bytes.LastIndexByte(buf[:n], ')')
	if end < 0 {
		return false
	}
	const state, threads = 3, 20
	fields := bytes.Fields(buf[end+1 : n])
	return len(fields) > threads-state && bytes.ContainsAny(fields[0], "ZXx") &&
		(string(fields[threads-state]) == "1" || string(fields[threads-state]) == "0")
}

// waitTarget returns the arguments by which waitid(2) finds the process. The error is ESRCH if it
// was reaped.
func (p *Process) waitTarget() (idType, id int, err error) {
	if p.directory {
		return unix.P_PID, int(p.pid), p.holdsPid()
	}
	return unix.P_PIDFD, int(p.fd), nil
}
