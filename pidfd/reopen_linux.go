package pidfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reopen returns the process that id was read from, which need not be a child of this one, and may be a zombie. The error is
// ErrGone if it was reaped, whoever has its pid now.
func Reopen(id Identity) (*Process, error) {
	p, err := Open(id.Pid)
	if err != nil {
		return nil, err
	}
	return p.ifIs(id)
}

// Take returns the process behind fd, a pidfd that somebody kept for this process, if it is the one that id was read from; else ErrGone.
// It may have been reaped since: then ExitInfo tells how it ended where the kernel keeps that. Take owns fd, also when it fails.
func Take(fd int, id Identity) (*Process, error) {
	return (&Process{pid: int32(id.Pid), fd: int32(fd)}).ifIs(id)
}

// ifIs returns p if it is the process that id was read from, else closes it.
func (p *Process) ifIs(id Identity) (*Process, error) {
	is, err := p.is(id)
	if is && err == nil {
		return p, nil
	}
	p.Close()
	if err == nil || errors.Is(err, ErrGone) {
		return nil, fmt.Errorf("reopen process %d: %w", id.Pid, ErrGone)
	}
	return nil, fmt.Errorf("reopen process %d: %w", id.Pid, err)
}

// is reports whether p is the process that id was read from. The inode tells where the kernel has it, without a look into /proc.
func (p *Process) is(id Identity) (bool, error) {
	inode, err := p.inode()
	if err != nil {
		return false, err
	}
	if id.Inode != 0 || inode != 0 {
		return id.Inode == inode, nil
	}
	now, err := p.Identity()
	return now == id, err
}

// Ended reports whether the process has ended, be it reaped or not. Source: pidfd_open(2).
func (p *Process) Ended() bool {
	polled := []unix.PollFd{{Fd: p.fd, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// Gone reports whether the process was reaped: nothing of it is left but what ExitInfo tells.
func (p *Process) Gone() bool { return unix.PidfdSendSignal(int(p.fd), 0, nil, 0) == unix.ESRCH }
