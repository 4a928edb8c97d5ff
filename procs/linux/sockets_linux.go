package linux

import (
	"os"

	"superd/config"
	"superd/config/listen"
	"superd/procs/host"
	"superd/procs/linux/listener"
)

// socketSlots is how many workers open and change sockets with a path, whose file system may hang.
// One more serves all others.
const socketSlots = 4

// socketWorker runs f, which concerns an address, in a worker.
func (k *Host) socketWorker(a listen.Address, f func()) {
	if a.Path() == "" {
		k.opening.Begin(&k.binds, f)
		return
	}
	k.opening.Begin(&k.pathBinds, f)
}

// OpenSocket implements [host.Sockets].
func (k *Host) OpenSocket(spec *host.SocketSpec, done func(*host.SharedFD, error)) {
	removed := k.pathRemovals[spec.Address.Path()]
	k.socketWorker(spec.Address, func() {
		if removed != nil {
			<-removed // otherwise the path that is made here might be removed
		}
		fd, err := -1, spec.Intend()
		if err == nil {
			fd, err = listener.Open(spec.Settings, spec.Address)
		}
		if err != nil {
			k.loop.Post(func() { done(nil, err) })
			return
		}
		spec.Store(fd)
		k.loop.Post(func() { done(k.TakeSocket(fd), nil) })
	})
}

// TakeSocket implements [host.Sockets].
func (k *Host) TakeSocket(fd int) *host.SharedFD { return host.NewSharedFD(fd, k.CloseFD) }

// SocketAddress implements [host.Sockets].
func (k *Host) SocketAddress(fd int) (listen.Address, error) { return listener.Address(fd) }

// ChangeSocket implements [host.Sockets].
func (k *Host) ChangeSocket(fd *host.SharedFD, s *config.Socket, a listen.Address, done func(error)) {
	fd.Hold()
	k.socketWorker(a, func() {
		err := listener.Change(fd.FD(), s, a)
		fd.Release()
		k.loop.Post(func() { done(err) })
	})
}

// RestorePath implements [host.Sockets].
func (k *Host) RestorePath(fd *host.SharedFD, a listen.Address, done func(bool, error)) {
	fd.Hold()
	k.socketWorker(a, func() {
		restored, err := listener.Restore(fd.FD(), a)
		fd.Release()
		k.loop.Post(func() { done(restored, err) })
	})
}

// RemoveSocket implements [host.Sockets]. A path that can't be removed is stale, and replaced when
// the address is opened again.
func (k *Host) RemoveSocket(fd *host.SharedFD, a listen.Address) {
	if a.Path() == "" {
		fd.Release()
		return
	}
	path, before, removed := a.Path(), k.pathRemovals[a.Path()], make(chan struct{})
	k.pathRemovals[path] = removed
	k.closing.Begin(&k.closes, func() {
		if before != nil {
			<-before
		}
		if err := listener.Remove(fd.FD(), a); err != nil {
			k.log.Warn("path of a socket not removed", "path", path, "error", err)
		}
		fd.Release()
		close(removed)
		k.loop.Post(func() {
			if k.pathRemovals[path] == removed {
				delete(k.pathRemovals, path)
			}
		})
	})
}

// Accept implements [host.Sockets].
func (k *Host) Accept(fd *host.SharedFD, most int) (all []host.Connection, err error) {
	accepted, err := listener.Accept(fd.FD(), most)
	for _, c := range accepted {
		all = append(all, host.Connection{FD: k.TakeSocket(c.FD), Addr: c.Addr, Port: c.Port})
	}
	return all, err
}

// SocketConnections implements [host.Sockets].
func (k *Host) SocketConnections(fds []*host.SharedFD, done func(int, error)) {
	numbers := hold(fds)
	k.opening.Begin(&k.socketQueries, func() {
		count, err := listener.Connections(numbers)
		for _, fd := range fds {
			fd.Release()
		}
		k.loop.Post(func() { done(count, err) })
	})
}

// hold adds a user to each of the descriptors, and returns their numbers.
func hold(fds []*host.SharedFD) []int {
	numbers := make([]int, len(fds))
	for i, fd := range fds {
		numbers[i] = fd.Hold().FD()
	}
	return numbers
}

// A queueQuery waits for what waits in sockets.
type queueQuery struct {
	fds     []*host.SharedFD // each held
	numbers []int
	done    func([]host.SocketQueue)
}

// queueQueries are the queries that wait for the next look at all sockets. One look serves all that
// have come since the last one began: it costs as much as there are sockets and descriptors.
type queueQueries struct {
	waiting []queueQuery
	looking bool
}

// SocketQueues implements [host.Sockets].
func (k *Host) SocketQueues(fds []*host.SharedFD, done func([]host.SocketQueue)) {
	k.queues.waiting = append(k.queues.waiting, queueQuery{fds, hold(fds), done})
	if !k.queues.looking {
		k.lookAtQueues()
	}
}

// lookAtQueues answers the queries that wait.
func (k *Host) lookAtQueues() {
	queries := k.queues.waiting
	k.queues.waiting, k.queues.looking = nil, true
	k.opening.Begin(&k.socketQueries, func() {
		var numbers []int
		for _, q := range queries {
			numbers = append(numbers, q.numbers...)
		}
		self := os.Getpid()
		found := listener.Queues(numbers, func(pid int) bool { return pid == self || pid == k.keeper })
		for _, q := range queries {
			for _, fd := range q.fds {
				fd.Release()
			}
		}
		k.loop.Post(func() {
			if k.queues.looking = false; len(k.queues.waiting) > 0 {
				k.lookAtQueues()
			}
			for _, q := range queries {
				q.answer(found)
			}
		})
	})
}

// answer answers a query by what was found, by descriptor.
func (q *queueQuery) answer(found map[int]listener.Queue) {
	all := make([]host.SocketQueue, len(q.fds))
	for i, number := range q.numbers {
		one, known := found[number]
		all[i] = host.SocketQueue{Known: known, Waiting: one.Waiting, Most: one.Most}
		for _, p := range one.Holders {
			all[i].Holders = append(all[i].Holders, host.SocketHolder(p))
		}
	}
	q.done(all)
}
