// Package pidfd holds processes as file descriptors: spawn one, open one, signal it, wait for it.
//
// A pid is only a number that the kernel gives to the next process once its owner was reaped; a
// pidfd stays with the process it was made for. So every signal goes through the pidfd, each child
// is waited for through its own, and a descriptor becomes readable when its process ends. Nothing
// here blocks but Spawn and Probe. A Process may be handed from goroutine to goroutine, but not used
// by two at once.
//
// Linux 5.4 or newer is needed; what later versions added is found out by Probe.
package pidfd

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Process owns one pidfd: of a child, from Spawn, or of any process, from Open.
type Process struct {
	pid   int32
	fd    int32  // -1 once closed
	start uint64 // as in Identity, of one from Spawn; 0: not known
	// exit is set when Wait has had it from the kernel, and nil before. From then on pid may belong to
	// somebody else.
	exit *Exit
}

// Open returns the process that has this pid now; it need not be a child and may be a zombie. The
// error is ErrGone when there is none, also where a thread has that number now. Whether it is the one the caller has in mind, Identity tells.
//
// Source: pidfd_open(2); for a thread it says EINVAL, from Linux 6.16 on ENOENT.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0) // always close-on-exec
	if pid > 0 && (err == unix.EINVAL || err == unix.ENOENT) {
		err = unix.ESRCH
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, translate(err))
	}
	return &Process{pid: int32(pid), fd: int32(fd)}, nil
}

// FD returns the descriptor, -1 once closed. It is readable from the moment the process ends (all of
// its threads) and hangs up (EPOLLHUP) when it is reaped, the latter on kernels with pidfs only.
func (p *Process) FD() int { return int(p.fd) }

// Pid returns the process id, for showing and for looking into /proc, never for signalling.
func (p *Process) Pid() int { return int(p.pid) }

// Close gives up the descriptor; the process goes on. Take the descriptor out of epoll first. What
// Wait has returned is still there afterwards. Closing twice is allowed.
func (p *Process) Close() error {
	if p.fd < 0 {
		return nil
	}
	fd := int(p.fd)
	p.fd = -1
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0); errno != 0 { // as sendSignal does it
		return fmt.Errorf("close process %d: %w", p.pid, errno)
	}
	return nil
}

// sendSignal calls pidfd_send_signal(2). As it waits for nothing, Go's runtime is not told: that would give the processor of a goroutine that deals with
// a thousand processes to another thread whenever one of them takes longer than 20 µs, and wake that thread for it.
func sendSignal(fd int32, sig syscall.Signal, flags int) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(sig), 0, uintptr(flags), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Signal sends sig to the process, ErrGone when it was reaped. A zombie takes every signal and
// nothing happens. Signal 0 is not delivered and only tells whether the process could be signalled.
//
// Source: pidfd_send_signal(2).
func (p *Process) Signal(sig syscall.Signal) error {
	if err := sendSignal(p.fd, sig, 0); err != nil {
		return fmt.Errorf("signal process %d: %w", p.pid, translate(err))
	}
	return nil
}

// SignalGroup sends sig to every process of the group that p leads, as each process from Spawn does.
//
// Since Linux 6.9 the group is found through the pidfd, so that it can be signalled as long as it
// has a member, also when the leader was reaped or is not our child; ErrGone tells that the group is
// empty. Before, the group's number must do, and it is safe only while the leader is our unreaped
// child: otherwise the error is ErrGone if Wait has reaped it, else ErrNotChild.
//
// Source: pidfd_send_signal(2), PIDFD_SIGNAL_PROCESS_GROUP.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	err := sendSignal(p.fd, sig, unix.PIDFD_SIGNAL_PROCESS_GROUP)
	if err == unix.EINVAL { // an unknown flag, or a bad signal number: then kill refuses it, too
		err = p.killGroup(sig)
	}
	if err != nil {
		return fmt.Errorf("signal process group %d: %w", p.pid, translate(err))
	}
	return nil
}

// killGroup is SignalGroup for kernels that know a group by its number only.
func (p *Process) killGroup(sig syscall.Signal) error {
	if p.exit != nil {
		return unix.ESRCH
	}
	// One owner waits for each child, and that is us: a child now is a child still at the kill.
	if _, err := waitidNow(unix.P_PIDFD, int(p.fd), unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return err
	}
	return unix.Kill(-int(p.pid), sig)
}

// Identity returns what tells the process from all others, or ErrGone when it was reaped. With any other error comes what can be told without
// a further descriptor, which is pid and inode.
func (p *Process) Identity() (Identity, error) {
	fail := func(err error) (Identity, error) {
		id := Identity{Pid: int(p.pid)}
		id.Inode, _ = p.inode()
		return id, fmt.Errorf("identify process %d: %w", p.pid, translate(err))
	}
	if p.start > 0 && p.exit == nil { // so the pid is its own
		inode, err := p.inode()
		return Identity{Pid: int(p.pid), Start: p.start, Inode: inode}, err
	}
	path := "/proc/" + strconv.Itoa(int(p.pid)) + "/stat"
	var buf [statBytes]byte
	stat, err := readStat(path, buf[:])
	// The file was found by the pid, so it is the right one only if the process still holds its pid
	// now. EPERM says that it does and belongs to another user.
	if alive := sendSignal(p.fd, 0, 0); alive != nil && alive != unix.EPERM {
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

// statBytes is more than a /proc/pid/stat has: 52 fields of at most 20 digits, and a name of at most 64 bytes.
const statBytes = 2 << 10

// readStat reads a file of the kernel that fits into buf, by plain system calls: an os.File would be offered to Go's poller first.
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

// inode returns the inode of a pidfd that lives on pidfs, else 0: before, all shared one anonymous inode.
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

// translate replaces the errnos that have a meaning here by the package's errors.
func translate(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return ErrGone
	case errors.Is(err, unix.ECHILD):
		return ErrNotChild
	}
	return err
}
