// Package pidfd represents processes by file descriptors: spawn one, open one, signal it, wait for
// it.
//
// The kernel reuses a pid once its process was reaped; a pidfd always refers to the same process.
// So every signal goes through the pidfd, each child is waited for through its own, and a
// descriptor becomes readable when its process ends. Only Spawn and Probe block. A Process may be
// passed between goroutines, but not used by two at once.
//
// It needs Linux 5.4 or newer; Probe detects later features.
package pidfd

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Process owns a pidfd: of a child, from Spawn, or of any process, from Open.
type Process struct {
	pid int32
	fd  int32 // -1 once closed
	// As in Identity, for a process from Spawn; 0: unknown
	start uint64
	// directory reports that fd is the process's directory in /proc, see openDirectory.
	directory bool
	// exit is the result of a successful Wait, nil before. Once it is set, pid may belong to
	// another process.
	exit *Exit
}

// Open returns the process that has this pid now; it need not be a child and may be a zombie. The
// error is ErrGone if there is none, or if the number belongs to a thread. Use Identity to check
// that it is the intended process.
//
// Source: pidfd_open(2); for a thread it returns EINVAL, from Linux 6.16 on ENOENT.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0) // always close-on-exec
	if refused(err) {
		p, err := openDirectory(pid)
		if err != nil {
			return nil, fmt.Errorf("open process %d: %w", pid, translate(err))
		}
		return p, nil
	}
	if pid > 0 && (err == unix.EINVAL || err == unix.ENOENT) {
		err = unix.ESRCH
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, translate(err))
	}
	return &Process{pid: int32(pid), fd: int32(fd)}, nil
}

// FD returns the descriptor, -1 once closed. It is readable from the end of the process (all of its
// threads) and hangs up (EPOLLHUP) when it is reaped, the latter only on kernels with pidfs. If
// pidfd_open is refused, the descriptor of a process from Open can't be watched: epoll returns
// EPERM.
func (p *Process) FD() int { return int(p.fd) }

// Pid returns the process id, for display and for reading /proc, never for signalling.
func (p *Process) Pid() int { return int(p.pid) }

// Close closes the descriptor; the process continues. Remove the descriptor from epoll first. The
// result of Wait stays available. Closing twice is allowed.
func (p *Process) Close() error {
	if p.fd < 0 {
		return nil
	}
	fd := int(p.fd)
	p.fd = -1
	// Without the runtime, as in sendSignal.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0); errno != 0 {
		return fmt.Errorf("close process %d: %w", p.pid, errno)
	}
	return nil
}

// sendSignal calls pidfd_send_signal(2). The call does not block, so it bypasses Go's runtime. The
// runtime would give the processor of a goroutine that signals a thousand processes to another
// thread whenever a call takes longer than 20 µs, and wake that thread.
func sendSignal(fd int32, sig syscall.Signal, flags int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(sig), 0, uintptr(flags), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Signal sends sig to the process; the error is ErrGone if it was reaped. A zombie accepts every
// signal without effect. Signal 0 is not delivered and only tests whether the process can be
// signalled.
//
// Source: pidfd_send_signal(2).
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.signal(sig); err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, translate(err))
	}
	return nil
}

// SignalGroup sends sig to every process of the group that p leads; each process from Spawn leads
// one.
//
// Since Linux 6.9 the group is found through the pidfd. It can be signalled while it has a member,
// even if the leader was reaped or is not a child; ErrGone means that the group is empty. Before
// 6.9 the group's number is used, which is safe only while the leader is an unreaped child.
// Otherwise the error is ErrGone if Wait has reaped it, else ErrNotChild.
//
// Source: pidfd_send_signal(2), PIDFD_SIGNAL_PROCESS_GROUP.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	err := sendSignal(p.fd, sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	// An unknown flag, or a bad signal number, which kill refuses, too.
	if err == unix.EINVAL || refused(err) {
		err = p.killGroup(sig)
	}
	if err != nil {
		return fmt.Errorf("signal process group %d: %w", p.pid, translate(err))
	}
	return nil
}

// killGroup is SignalGroup for kernels that identify a group only by number.
func (p *Process) killGroup(sig syscall.Signal) error {
	if p.exit != nil {
		return unix.ESRCH
	}
	idType, id, err := p.waitTarget()
	if err != nil {
		return err
	}
	// Only this goroutine waits for the child, so a child now is still one at the kill.
	if _, err := waitidNow(idType, id, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return err
	}
	return unix.Kill(-int(p.pid), sig)
}

// Identity returns the identity of the process, or ErrGone if it was reaped. With any other error
// it returns pid and inode, which need no further descriptor.
func (p *Process) Identity() (Identity, error) {
	fail := func(err error) (Identity, error) {
		id := Identity{Pid: int(p.pid)}
		id.Inode, _ = p.inode()
		return id, fmt.Errorf("identify process %d: %w", p.pid, translate(err))
	}
	if p.start > 0 && p.exit == nil { // the pid is still its own
		inode, err := p.inode()
		return Identity{Pid: int(p.pid), Start: p.start, Inode: inode}, err
	}
	path := "/proc/" + strconv.Itoa(int(p.pid)) + "/stat"
	var buf [statBytes]byte
	stat, err := readStat(path, buf[:])
	// The file was found by the pid, so it belongs to this process only if it still has its pid
	// now. EPERM means that it does and belongs to another user.
	if alive := p.signal(0); alive != nil && alive != unix.EPERM {
		return fail(alive)
	}
	if err != nil {
		return fail(err)
	}
	start, err := parseStart(stat)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", path, err))
	}
	inode, err := p.inode()
	if err != nil {
		return fail(err)
	}
	return Identity{Pid: int(p.pid), Start: start, Inode: inode}, nil
}

// statBytes is more than the size of a /proc/pid/stat: 52 fields of at most 20 digits, and a name
// of at most 64 bytes.
const statBytes = 2 << 10

// readStat reads a kernel file that fits into buf by plain system calls: an os.File would be
// registered with Go's poller first.
func readStat(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// inode returns the inode of a pidfd on pidfs, else 0: older kernels have one anonymous inode for
// all.
func (p *Process) inode() (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(p.fd), &fs); err != nil {
		return 0, err
	}
	if fs.Type != unix.PID_FS_MAGIC {
		return 0, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(p.fd), &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// translate replaces errnos by the errors of this package.
func translate(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case errors.Is(err, unix.ECHILD):
		return ErrNotChild
	}
	return err
}
