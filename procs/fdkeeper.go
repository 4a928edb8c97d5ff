package procs

import (
	"slices"
	"strconv"

	"superd/procs/host"
)

// maxNames bounds the total length of the stored names. A successor gets all of them in one
// environment variable, which can have 128 KiB.
const maxNames = 100 << 10

// An fdKeeper keeps account of the descriptors in the descriptor store: those of this supervisor
// and those that a predecessor has stored. Their names are numbers. Names are not reused while the
// journal or the keeper may refer to them: after a crash we cannot tell which was updated last.
type fdKeeper struct {
	*platform
	registry     *registry // has how much output needs names
	recorder     *recorder
	shuttingDown func() bool
	keeper       host.FDStore

	names      map[int32]uint64 // bitmap of names in use, 64 per entry
	count      int              // number of names in use
	next       int32            // greater than all names so far
	bytes      int              // total length of the names, with a separator each
	fullLogged bool             // the warning that the store is full was logged

	stores    []pendingStore // stored before the journal is written
	releases  []string       // names released after the journal is written
	inherited map[string]int // descriptors of a predecessor that are not claimed yet, by name
}

// newFDKeeper returns an fdKeeper that takes part in each write of the recorder. shuttingDown
// reports whether a shutdown has begun.
func newFDKeeper(p *platform, reg *registry, rec *recorder, shuttingDown func() bool) *fdKeeper {
	f := &fdKeeper{
		platform: p, registry: reg, recorder: rec, shuttingDown: shuttingDown,
		keeper: p.options.Keeper, names: map[int32]uint64{}, inherited: map[string]int{},
	}
	if f.keeper == nil {
		f.keeper = noopKeeper{}
	}
	rec.beforeWrite, rec.afterWrite = f.flushStores, f.flushReleases
	return f
}

// Store implements [FDs].
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
	name = strconv.Itoa(int(f.next))
	room := maxNames - f.bytes - len(name) - 1
	if !output {
		room -= f.registry.outputs * len("12345:") // reserved for the output of all programs
	}
	if room < 0 {
		if !f.fullLogged {
			f.fullLogged = true
			f.Log.Warn("descriptor store is full: too many programs", "kept", f.count, "output", !output)
		}
		return ""
	}
	f.use(name)
	f.next++
	return name
}

// known marks a name that a predecessor has used, so that it is not reused.
func (f *fdKeeper) known(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		f.next = max(f.next, int32(n)+1)
	}
}

// Has reports whether a descriptor is stored under the name.
func (f *fdKeeper) Has(name string) bool {
	n, err := strconv.ParseInt(name, 10, 32)
	return err == nil && n >= 0 && f.names[int32(n)/64]&(1<<(n%64)) != 0
}

func (f *fdKeeper) use(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && n >= 0 && !f.Has(name) {
		f.names[int32(n)/64] |= 1 << (n % 64)
		f.count++
		f.bytes += len(name) + 1
	}
}

func (f *fdKeeper) drop(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && f.Has(name) {
		if f.names[int32(n)/64] &^= 1 << (n % 64); f.names[int32(n)/64] == 0 {
			delete(f.names, int32(n)/64)
		}
		f.count--
		f.bytes -= len(name) + 1
	}
}

// inherit takes over the descriptors of a predecessor, by name, until they are claimed.
func (f *fdKeeper) inherit(fds map[string]int) {
	for name, fd := range fds {
		f.inherited[name] = fd
		f.known(name)
	}
}

// Claim returns the descriptor stored under the name; -1 if there is none or it was claimed before.
func (f *fdKeeper) Claim(name string) int {
	fd, ok := f.inherited[name]
	if !ok || name == "" {
		return -1
	}
	delete(f.inherited, name)
	f.use(name)
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

// ReleaseProcess is release for a process that has ended. During a shutdown it does not release
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
		f.drop(name)
	}
}

// A noopKeeper stores nothing.
type noopKeeper struct{}

func (noopKeeper) Store(string, int)       {}
func (noopKeeper) Discard(string)          {}
func (noopKeeper) Forget(string)           {}
func (noopKeeper) Acknowledge(int, uint64) {}
