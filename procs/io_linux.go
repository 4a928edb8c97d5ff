package procs

import (
	"io"

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
	// checked last, so that a reuse of the pid is noticed
	if err == nil && !tree.Has(pid) || p.Gone() {
		err = pidfd.ErrGone
	}
	if err != nil {
		p.Close()
		return nil, pidfd.Identity{}, err
	}
	if t, ok := tree.(*scanTree); ok {
		t.meet(id)
	}
	return p, id, nil
}

// A plainFile is a descriptor that is read by plain system calls.
type plainFile int

// openPlain opens a file for reading. An os.File would be offered to the runtime's poller first, which
// does not watch regular files.
func openPlain(path string) (plainFile, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	return plainFile(fd), err
}

// ReadAt implements [io.ReaderAt].
func (f plainFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		more, err := retry(func() (int, error) { return unix.Pread(int(f), p[n:], offset+int64(n)) })
		if err != nil {
			return n, err
		}
		if more == 0 {
			return n, io.EOF
		}
		n += more
	}
	return n, nil
}

// retry repeats a system call that a signal has interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}
