package hosttest

import (
	"slices"

	"superd/procs/host"
)

// A storedFD is what a descriptor in the store refers to: a process, a run's notify socket or
// readiness pipe, or a socket for programs.
type storedFD struct {
	process   *Process
	socket    *Socket
	listening *Listening
}

// Store implements [host.FDStore].
func (k *Kernel) Store(name string, fd int) {
	if !k.StoresFDs {
		return
	}
	stored := storedFD{socket: k.notifyFDs[fd], listening: k.listening[fd]}
	if h := k.handles[fd]; h != nil {
		stored.process = h.Process
	}
	if _, taken := k.stored[name]; taken {
		k.fail("a descriptor is stored as %s, as which another one is stored", name)
	}
	if stored == (storedFD{}) {
		k.fail("descriptor %d, which is closed, is stored as %s", fd, name)
		return
	}
	k.stored[name] = stored
}

// Discard implements [host.FDStore].
func (k *Kernel) Discard(name string) {
	if !k.Defects.NoDiscard {
		delete(k.stored, name)
	}
}

// Forget implements [host.FDStore].
func (k *Kernel) Forget(name string) { delete(k.stored, name) }

// Acknowledge implements [host.FDStore].
func (k *Kernel) Acknowledge(pid int, start uint64) {
	if k.Defects.NoAcknowledgement {
		return
	}
	if k.OnAcknowledge != nil {
		k.OnAcknowledge(pid, start)
	}
	acknowledged := func(e host.StoredExit) bool { return e.Pid == pid && e.Start == start }
	k.exits = slices.DeleteFunc(k.exits, acknowledged)
}

// StoredExits returns the exits that the keeper has to keep.
func (k *Kernel) StoredExits() []host.StoredExit { return k.exits }

// StoredNames returns the names under which descriptors are stored, sorted.
func (k *Kernel) StoredNames() []string { return sortedKeys(k.stored) }

// PassFDs returns what the store passes to the next superd, which owns the descriptors.
func (k *Kernel) PassFDs() host.StoredFDs {
	passed := host.StoredFDs{Exits: slices.Clone(k.exits)}
	if !k.StoresFDs {
		return passed
	}
	passed.Files = map[string]int{}
	for _, name := range sortedKeys(k.stored) {
		switch stored := k.stored[name]; {
		case stored.process != nil:
			passed.Files[name] = stored.process.open().fd
		case stored.listening != nil:
			fd := k.v.NewFD()
			passed.Files[name], k.listening[fd] = fd, stored.listening
			k.showWaiting(stored.listening)
		default:
			fd := k.v.NewFD()
			passed.Files[name], k.notifyFDs[fd] = fd, stored.socket
		}
	}
	return passed
}
