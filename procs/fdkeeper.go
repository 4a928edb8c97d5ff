package procs

import (
	"slices"

	"superd/procs/fdnames"
	"superd/procs/host"
)

// An fdKeeper keeps account of the descriptors in the descriptor store: those of this supervisor
// and those that a predecessor has stored.
type fdKeeper struct {
	*platform
	registry     *registry // has how much output needs names
	recorder     *recorder
	shuttingDown func() bool
	keeper       host.FDStore

	names      *fdnames.Set
	fullLogged bool // the warning that the store is full was logged

	stores    []pendingStore // stored before the journal is written
	releases  []string       // names released after the journal is written
	inherited map[string]int // descriptors of a predecessor that are not claimed yet, by name
}

// newFDKeeper returns an fdKeeper that takes part in each write of the recorder. shuttingDown
// reports whether a shutdown has begun.
func newFDKeeper(p *platform, reg *registry, rec *recorder, shuttingDown func() bool) *fdKeeper {
	f := &fdKeeper{
		platform: p, registry: reg, recorder: rec, shuttingDown: shuttingDown,
		keeper: p.options.Keeper, names: fdnames.New(), inherited: map[string]int{},
	}
	if f.keeper == nil {
		f.keeper = noopKeeper{}
	}
	rec.beforeWrite, rec.afterWrite = f.flushStores, f.flushReleases
	return f
}

// Store implements [instance.FDs].
func (f *fdKeeper) Store(name string, fd int) { f.keeper.Store(name, fd) }

// StoreFD stores a duplicate of fd in the descriptor store and returns its name; "" if it is not
// stored.
func (f *fdKeeper) StoreFD(fd int, output bool) (name string) {
	if name = f.Reserve(output); name != "" {
		f.keeper.Store(name, fd)
	}
	return name
}

// Reserve returns a new name; "" if the store is full. Space for the descriptors of output is
// reserved: output in a pipe is lost without them.
func (f *fdKeeper) Reserve(output bool) (name string) {
	if f.keeper == host.FDStore(noopKeeper{}) {
		return ""
	}
	reserved := 0
	if !output {
		reserved = f.registry.outputs // for the output of all programs
	}
	name = f.names.Take(reserved)
	if name == "" && !f.fullLogged {
		f.fullLogged = true
		f.Log.Warn("descriptor store is full: too many programs", "kept", f.names.Len(), "output", !output)
	}
	return name
}

// Has reports whether a descriptor is stored under the name.
func (f *fdKeeper) Has(name string) bool { return f.names.Has(name) }

// inherit takes over the descriptors of a predecessor, by name, until they are claimed.
func (f *fdKeeper) inherit(fds map[string]int) {
	for name, fd := range fds {
		f.inherited[name] = fd
		f.names.Know(name)
	}
}

// Claim returns the descriptor stored under the name; -1 if there is none or it was claimed before.
func (f *fdKeeper) Claim(name string) int {
	fd, ok := f.inherited[name]
	if !ok || name == "" {
		return -1
	}
	delete(f.inherited, name)
	f.names.Use(name)
	return fd
}

// discardInherited closes the inherited descriptors that were not claimed, and removes them from
// the store.
func (f *fdKeeper) discardInherited() {
	for name, fd := range f.inherited {
		f.keeper.Discard(name)
		f.Host.CloseFD(fd)
	}
	clear(f.inherited)
}

// StoreProcess stores the pidfd of a process in the descriptor store, from which a successor learns
// how the process ended. The store is batched with others. Until then a successor finds the process
// by its identity.
func (f *fdKeeper) StoreProcess(p host.Process) (name string) {
	if name = f.Reserve(false); name != "" {
		f.stores = append(f.stores, pendingStore{name, p.FD()})
		f.recorder.WriteSoon()
	}
	return name
}

type pendingStore struct {
	name string
	fd   int
}

func (f *fdKeeper) flushStores() {
	for _, p := range f.stores {
		f.keeper.Store(p.name, p.fd)
	}
	f.stores = f.stores[:0]
}

// flushReleases removes the released names from the descriptor store once the journal is written.
func (f *fdKeeper) flushReleases() {
	if names := f.releases; len(names) > 0 {
		f.releases = nil
		f.recorder.afterRecorded(func() { f.discard(names) })
	}
}

// Release removes the name from the descriptor store, when the journal does not refer to it any
// more.
func (f *fdKeeper) Release(name string) {
	if name == "" {
		return
	}
	f.dropPendingStore(name)
	f.releases = append(f.releases, name)
	f.recorder.WriteSoon()
}

// ReleaseProcess is Release for a process that has ended. During a shutdown it does not release
// names one by one: they go with the keeper, and a successor releases those that the journal does
// not have.
func (f *fdKeeper) ReleaseProcess(name string) {
	if !f.shuttingDown() {
		f.Release(name)
	} else {
		f.dropPendingStore(name)
		f.keeper.Forget(name)
	}
}

// dropPendingStore cancels a batched store, as its descriptor is about to be closed.
func (f *fdKeeper) dropPendingStore(name string) {
	f.stores = slices.DeleteFunc(f.stores, func(p pendingStore) bool { return p.name == name })
}

func (f *fdKeeper) discard(names []string) {
	for _, name := range names {
		f.keeper.Discard(name)
		f.names.Drop(name)
	}
}

// A noopKeeper stores nothing.
type noopKeeper struct{}

func (noopKeeper) Store(string, int)       {}
func (noopKeeper) Discard(string)          {}
func (noopKeeper) Forget(string)           {}
func (noopKeeper) Acknowledge(int, uint64) {}
