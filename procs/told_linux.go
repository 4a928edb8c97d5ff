package procs

import (
	"golang.org/x/sys/unix"

	"superd/loop"
	"superd/pidfd"
	"superd/procs/notify"
	"superd/procs/probe"
)

// CheckTCP implements [System].
func (k *Kernel) CheckTCP(address string) probe.Checker { return probe.TCP(k.loop, address) }

// CheckHTTP implements [System].
func (k *Kernel) CheckHTTP(address string) (probe.Checker, error) { return probe.HTTP(k.loop, address) }

// CloseFD implements [System].
func (k *Kernel) CloseFD(fd int) { closeInherited(fd) }

// Nowhere implements [System].
func (k *Kernel) Nowhere() (int, error) {
	return retry(func() (int, error) { return unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0) })
}

// Listen implements [System].
func (k *Kernel) Listen(scope *loop.Scope, fd int, h notify.Handler) (Listener, error) {
	return notify.Receive(scope, fd, h)
}

// AwaitNewline implements [System].
func (k *Kernel) AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	return notify.AwaitNewline(scope, fd, done)
}

// Open implements [System].
func (k *Kernel) Open(tree Tree, pid int) (Process, pidfd.Identity, error) {
	p, err := pidfd.Open(pid)
	if err != nil {
		return nil, pidfd.Identity{}, err
	}
	id, err := p.Identity()
	if err == nil && !tree.Has(pid) || p.Gone() { // asked when the number can't become another's unnoticed
		err = pidfd.ErrGone
	}
	if err != nil {
		p.Close()
		return nil, pidfd.Identity{}, err
	}
	if t, ok := tree.(*censusTree); ok {
		t.meet(id)
	}
	return p, id, nil
}
