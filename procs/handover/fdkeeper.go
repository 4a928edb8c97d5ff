package handover

import (
	"log/slog"
	"slices"
	"strconv"

	"superd/procs/host"
)

// FDOptions are what an [FDKeeper] needs.
type FDOptions struct {
	Host   host.Host
	Log    *slog.Logger
	Keeper host.FDStore // nil: no process survives this superd
	// OutputFDs returns how many descriptors the output of all programs may need
	OutputFDs func() int
	// ShuttingDown reports whether a shutdown has begun
	ShuttingDown func() bool
}

// An FDKeeper keeps account of the descriptors in the descriptor store: those of this supervisor
// and those that a predecessor has stored.
type FDKeeper struct {
	FDOptions
	recorder *Recorder

	names      nameSet
	fullLogged bool // the warning that the store is full was logged

	stores    []pendingStore // stored before the journal is written
	releases  []string       // names released after the journal is written
	inherited map[string]int // descriptors of a predecessor that are not claimed yet, by name
}

// NewFDKeeper returns an FDKeeper that takes part in each write of the recorder.
func NewFDKeeper(r *Recorder, o FDOptions) *FDKeeper {
	if o.Keeper == nil {
		o.Keeper = noopKeeper{}
	}
	f := &FDKeeper{FDOptions: o, recorder: r, names: newNameSet(), inherited: map[string]int{}}
	r.beforeWrite, r.afterWrite = f.flushStores, f.flushReleases
	return f
}

// Store stores a duplicate of fd under a reserved name. It may be called from any goroutine.
func (f *FDKeeper) Store(name string, fd int) { f.Keeper.Store(name, fd) }

// StoreFD stores a duplicate of fd in the descriptor store and returns its name; "" if it is not
// stored.
func (f *FDKeeper) StoreFD(fd int, output bool) (name string) {
	if name = f.Reserve(output); name != "" {
		f.Keeper.Store(name, fd)
	}
	return name
}

// Reserve returns a new name; "" if the store is full. Space for the descriptors of output is
// reserved: output in a pipe is lost without them.
func (f *FDKeeper) Reserve(output bool) (name string) {
	if f.Keeper == host.FDStore(noopKeeper{}) {
		return ""
	}
	reserved := 0
	if !output {
		reserved = f.OutputFDs() // for the output of all programs
	}
	name = f.names.take(reserved)
	if name == "" && !f.fullLogged {
		f.fullLogged = true
		f.Log.Warn("descriptor store is full: too many programs", "kept", f.names.count, "output", !output)
	}
	return name
}

// Has reports whether a descriptor is stored under the name.
func (f *FDKeeper) Has(name string) bool { return f.names.has(name) }

// Inherit takes over the descriptors of a predecessor, by name, until they are claimed. known are
// names that it may have used besides.
func (f *FDKeeper) Inherit(fds map[string]int, known []string) {
	for name, fd := range fds {
		f.inherited[name] = fd
		f.names.know(name)
	}
	for _, name := range known {
		f.names.know(name)
	}
}

// Claim returns the descriptor stored under the name; -1 if there is none or it was claimed before.
func (f *FDKeeper) Claim(name string) int {
	fd, ok := f.inherited[name]
	if !ok || name == "" {
		return -1
	}
	delete(f.inherited, name)
	f.names.use(name)
	return fd
}

// DiscardInherited closes the inherited descriptors that were not claimed, and removes them from
// the store.
func (f *FDKeeper) DiscardInherited() {
	for name, fd := range f.inherited {
		f.Keeper.Discard(name)
		f.Host.CloseFD(fd)
	}
	clear(f.inherited)
}

// StoreProcess stores the pidfd of a process in the descriptor store, from which a successor learns
// how the process ended. The store is batched with others. Until then a successor finds the process
// by its identity.
func (f *FDKeeper) StoreProcess(p host.Process) (name string) {
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

func (f *FDKeeper) flushStores() {
	for _, p := range f.stores {
		f.Keeper.Store(p.name, p.fd)
	}
	f.stores = f.stores[:0]
}

// flushReleases removes the released names from the descriptor store once the journal is written.
func (f *FDKeeper) flushReleases() {
	if names := f.releases; len(names) > 0 {
		f.releases = nil
		f.recorder.AfterRecorded(func() { f.discard(names) })
	}
}

// Release removes the name from the descriptor store, when the journal does not refer to it any
// more.
func (f *FDKeeper) Release(name string) {
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
func (f *FDKeeper) ReleaseProcess(name string) {
	if !f.ShuttingDown() {
		f.Release(name)
	} else {
		f.dropPendingStore(name)
		f.Keeper.Forget(name)
	}
}

// dropPendingStore cancels a batched store, as its descriptor is about to be closed.
func (f *FDKeeper) dropPendingStore(name string) {
	f.stores = slices.DeleteFunc(f.stores, func(p pendingStore) bool { return p.name == name })
}

func (f *FDKeeper) discard(names []string) {
	for _, name := range names {
		f.Keeper.Discard(name)
		f.names.drop(name)
	}
}

// A noopKeeper stores nothing.
type noopKeeper struct{}

func (noopKeeper) Store(string, int)       {}
func (noopKeeper) Discard(string)          {}
func (noopKeeper) Forget(string)           {}
func (noopKeeper) Acknowledge(int, uint64) {}

// maxNameBytes bounds the total length of the names. A successor gets all of them in one
// environment variable, which can have 128 KiB.
const maxNameBytes = 100 << 10

// A nameSet has the names in use.
//
// Names are numbers. A name is not used twice: after a crash a successor cannot tell whether the
// journal or the descriptor store was updated last, so both may refer to an old descriptor of that
// name.
type nameSet struct {
	used  map[int32]uint64 // bitmap, 64 names per entry
	count int
	next  int32 // greater than all names so far
	bytes int   // total length of the names, with a separator each
}

func newNameSet() nameSet { return nameSet{used: map[int32]uint64{}} }

// take returns a new name, which is in use; "" if there is no space for it besides that many other
// names.
func (s *nameSet) take(reserved int) (name string) {
	name = strconv.Itoa(int(s.next))
	if maxNameBytes-s.bytes-len(name)-1-reserved*len("12345:") < 0 {
		return ""
	}
	s.use(name)
	s.next++
	return name
}

// know marks a name that a predecessor has used, so that it is not taken.
func (s *nameSet) know(name string) {
	if n, ok := parseName(name); ok {
		s.next = max(s.next, n+1)
	}
}

// has reports whether the name is in use.
func (s *nameSet) has(name string) bool {
	n, ok := parseName(name)
	return ok && n >= 0 && s.used[n/64]&(1<<(n%64)) != 0
}

// use marks a name as in use.
func (s *nameSet) use(name string) {
	if n, ok := parseName(name); ok && n >= 0 && !s.has(name) {
		s.used[n/64] |= 1 << (n % 64)
		s.count++
		s.bytes += len(name) + 1
	}
}

// drop marks a name as no longer in use.
func (s *nameSet) drop(name string) {
	if n, ok := parseName(name); ok && s.has(name) {
		if s.used[n/64] &^= 1 << (n % 64); s.used[n/64] == 0 {
			delete(s.used, n/64)
		}
		s.count--
		s.bytes -= len(name) + 1
	}
}

func parseName(name string) (n int32, ok bool) {
	parsed, err := strconv.ParseInt(name, 10, 32)
	return int32(parsed), err == nil
}
