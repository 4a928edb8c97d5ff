package hosttest

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/host"
)

// A Listening is an open socket or FIFO that superd holds for programs.
type Listening struct {
	Address  listen.Address
	Settings *config.Socket // those that it has
	Waiting  int            // connections that are not accepted
}

// Listening returns the sockets that superd has open.
func (k *Kernel) Listening() (all []*Listening) {
	for _, fd := range sortedKeys(k.listening) {
		all = append(all, k.listening[fd])
	}
	return all
}

// Waiting returns how many connections wait in the open sockets with one of the addresses.
func (k *Kernel) Waiting(addresses ...listen.Address) (n int) {
	for _, l := range k.listening {
		if slices.Contains(addresses, l.Address) {
			n += l.Waiting
		}
	}
	return n
}

// ListeningAt returns the socket of an open descriptor.
func (k *Kernel) ListeningAt(fd int) *Listening { return k.listening[fd] }

// inUse reports whether superd, a start or the keeper has the address open.
func (k *Kernel) inUse(a listen.Address) bool {
	for _, l := range k.listening {
		if l.Address == a {
			return true
		}
	}
	for _, s := range k.stored {
		if s.listening != nil && s.listening.Address == a {
			return true
		}
	}
	return false
}

// OpenSocket implements [host.Sockets]. A stranger may have the address for a while.
func (k *Kernel) OpenSocket(spec *host.SocketSpec, done func(*host.SharedFD, error)) {
	delay := k.upTo(5 * time.Millisecond)
	if k.chance(k.Mix.SocketHangs) {
		delay = k.upTo(10 * time.Minute)
	}
	fails := k.chance(k.Mix.SocketFails)
	k.session.After(delay, func() {
		err := spec.Intend()
		if err == nil && (fails || k.inUse(spec.Address)) {
			err = fmt.Errorf("address in use: %w", syscall.EADDRINUSE)
		}
		if err != nil {
			k.session.Post(func() { done(nil, err) })
			return
		}
		fd := k.v.NewFD()
		k.listening[fd] = &Listening{Address: spec.Address, Settings: spec.Settings}
		if k.OnListen != nil {
			k.OnListen(k.listening[fd], true)
		}
		if !k.Defects.SocketNotStored {
			spec.Store(fd)
		}
		// superd may be killed when it is stored
		k.session.After(k.upTo(5*time.Millisecond), func() { done(k.TakeSocket(fd), nil) })
	})
}

// TakeSocket implements [host.Sockets].
func (k *Kernel) TakeSocket(fd int) *host.SharedFD {
	return host.NewSharedFD(fd, func(fd int) {
		l := k.listening[fd]
		if l == nil {
			k.fail("socket %d is closed, which is not open", fd)
		}
		delete(k.listening, fd)
		if k.OnListen != nil && l != nil {
			k.OnListen(l, false)
		}
		k.v.CloseFD(fd)
	})
}

// SocketAddress implements [host.Sockets].
func (k *Kernel) SocketAddress(fd int) (listen.Address, error) {
	l := k.listening[fd]
	if l == nil {
		return listen.Address{}, syscall.EBADF
	}
	return listen.Address{Network: l.Address.Network, Address: l.Address.Address}, nil
}

// ChangeSocket implements [host.Sockets].
func (k *Kernel) ChangeSocket(fd *host.SharedFD, s *config.Socket, a listen.Address, done func(error)) {
	l := k.listening[fd.FD()]
	if l == nil || l.Address != a {
		k.fail("%s is changed through a descriptor of another socket", a)
		return
	}
	fails := k.chance(k.Mix.SocketFails)
	k.session.After(k.upTo(5*time.Millisecond), func() {
		switch {
		case fails:
			done(fmt.Errorf("change owner: %w", syscall.EIO))
			return
		case !k.Defects.IgnoresSettings:
			l.Settings = s
		}
		done(nil)
	})
}

// RestorePath implements [host.Sockets]: no path is ever gone.
func (k *Kernel) RestorePath(fd *host.SharedFD, a listen.Address, done func(bool, error)) {
	if l := k.listening[fd.FD()]; l == nil || l.Address != a {
		k.fail("the path of %s is restored through a descriptor of another socket", a)
		return
	}
	k.session.After(k.upTo(5*time.Millisecond), func() { done(false, nil) })
}

// RemoveSocket implements [host.Sockets].
func (k *Kernel) RemoveSocket(fd *host.SharedFD, _ listen.Address) { fd.Release() }

// SocketConnections implements [host.Sockets]: only those that wait are open.
func (k *Kernel) SocketConnections(fds []*host.SharedFD, done func(int, error)) {
	n := 0
	for _, fd := range fds {
		if l := k.listening[fd.FD()]; l != nil {
			n += l.Waiting
		}
	}
	k.session.Post(func() { done(n, nil) })
}

// SocketQueues implements [host.Sockets].
func (k *Kernel) SocketQueues(fds []*host.SharedFD, done func([]host.SocketQueue)) {
	k.session.Post(func() { done(make([]host.SocketQueue, len(fds))) })
}

// useSockets checks the sockets of a spawn, and returns a function that releases them. It may be
// called twice.
func (k *Kernel) useSockets(spec *host.SpawnSpec) (release func()) {
	switch {
	case RoleOf(spec.Program) != RoleMain:
	case spec.Program.Accepts():
		k.useConnection(spec)
	default:
		var want, got []listen.Address
		for _, fd := range spec.Program.Sockets.FDs() {
			want = append(want, fd.Address)
		}
		for _, s := range spec.Sockets {
			l := k.listening[s.FD()]
			if l == nil {
				k.fail("%s is started with a socket that is closed", spec.Name)
				continue
			}
			got = append(got, l.Address)
		}
		if !slices.Equal(got, want) {
			k.fail("%s is started with the sockets %v, not %v", spec.Name, got, want)
		}
	}
	sockets := spec.Sockets
	return func() {
		for _, s := range sockets {
			s.Release()
		}
		sockets = nil
	}
}
