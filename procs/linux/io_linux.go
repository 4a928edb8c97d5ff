package linux

import (
	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/loop"
	"superd/pidfd"
	"superd/procs/host"
	"superd/procs/linux/proctree"
	"superd/procs/notify"
	"superd/procs/probe"
)

// CheckTCP implements [host.Host].
func (k *Host) CheckTCP(address string) probe.Checker { return probe.TCP(k.loop, address) }

// CheckHTTP implements [host.Host].
func (k *Host) CheckHTTP(address string) (probe.Checker, error) { return probe.HTTP(k.loop, address) }

// CloseFD implements [host.Host].
func (k *Host) CloseFD(fd int) { closeInherited(fd) }

// Nowhere implements [host.Host].
func (k *Host) Nowhere() (int, error) {
	return syscalls.RetryInt(func() (int, error) { return unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0) })
}

// Listen implements [host.Host].
func (k *Host) Listen(scope *loop.Scope, fd int, h notify.Handler) (host.Listener, error) {
	return notify.Receive(scope, fd, h)
}

// AwaitNewline implements [host.Host].
func (k *Host) AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	return notify.AwaitNewline(scope, fd, done)
}

// Open implements [host.Host].
func (k *Host) Open(tree host.Tree, pid int) (host.Process, pidfd.Identity, error) {
	p, err := pidfd.Open(pid)
	if err != nil {
		return nil, pidfd.Identity{}, err
	}
	id, err := p.Identity()
	// checked last, so that a reuse of the pid is noticed
	if err == nil && !tree.Has(pid) || p.Gone() {
		err = pidfd.ErrGone
	}
	if err != nil {
		p.Close()
		return nil, pidfd.Identity{}, err
	}
	if t, ok := tree.(*proctree.Tree); ok {
		t.AddMain(id)
	}
	return p, id, nil
}
