package pidfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Reopen returns the process with that identity, which need not be a child and may be a zombie. The
// error is ErrGone if it was reaped, even if another process has its pid.
func Reopen(id Identity) (*Process, error) {
	p, err := Open(id.Pid)
	if err != nil {
		return nil, err
	}
	return p.ifIs(id)
}

// Take returns the process of fd, a stored pidfd, if it has that identity, else ErrGone. It may
// have been reaped since; then ExitInfo says how it ended if the kernel keeps that. Take owns fd,
// also when it fails.
func Take(fd int, id Identity) (*Process, error) {
	return (&Process{pid: int32(id.Pid), fd: int32(fd)}).ifIs(id)
}

// ifIs returns p if it has that identity, else closes it.
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

// is reports whether p has that identity. It compares inodes if the kernel has them, which needs no
// access to /proc.
func (p *Process) is(id Identity) (bool, error) {
	inode, err := p.inode()
	if err != nil {
		return false, err
	}
	if !p.directory && (id.Inode != 0 || inode != 0) {
		return id.Inode == inode, nil
	}
	now, err := p.Identity()
	return now.Pid == id.Pid && now.Start == id.Start, err
}

// Ended reports whether the process has ended, reaped or not. Source: pidfd_open(2).
func (p *Process) Ended() bool {
	if p.directory {
		return p.ended()
	}
	polled := []unix.PollFd{{Fd: p.fd, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polled, 0)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// Gone reports whether the process was reaped. Then only ExitInfo is available.
func (p *Process) Gone() bool { return p.signal(0) == unix.ESRCH }
