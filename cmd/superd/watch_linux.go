package main

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A watchedProcess is a process whose end can be awaited, though it is not a child. nil: none.
type watchedProcess struct{ fd *os.File }

// watchProcess opens the process of this pid. It returns false if there is none in this namespace.
func watchProcess(pid int) (*watchedProcess, bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, false
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Go's poller waits for it
		unix.Close(fd)
		return nil, false
	}
	return &watchedProcess{os.NewFile(uintptr(fd), "pidfd")}, true
}

// Wait returns when the process has ended. A pidfd is readable from then on (pidfd_open(2)).
func (p *watchedProcess) Wait(ctx context.Context) error {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	err = raw.Read(func(fd uintptr) bool {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && ready > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Close closes the pidfd. It accepts nil.
func (p *watchedProcess) Close() error {
	if p == nil {
		return nil
	}
	return p.fd.Close()
}
