package procs

import (
	"math"
	"slices"
	"strconv"

	"superd/pidfd"
	"superd/procs/host"
)

// maxNames bounds the total length of the stored names. A successor gets all of them in one
// environment variable, which can have 128 KiB.
const maxNames = 100 << 10

// A fdStore keeps account of the descriptors that are in the descriptor store. Their names are
// numbers. Names are not reused while the journal or the keeper may refer to them: after a crash we
// cannot tell which was updated last.
type fdStore struct {
	names      map[int32]uint64 // bitmap of names in use, 64 per entry
	count      int              // number of names in use
	next       int32            // greater than all names so far
	bytes      int              // total length of the names, with a separator each
	fullLogged bool             // the warning that the store is full was logged
}

// A fdName is the name of a stored descriptor, in 4 bytes: the number plus one; 0: none.
type fdName int32

// fdNameOf parses a name; it returns 0 for text that is no number.
func fdNameOf(name string) fdName {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || n == math.MaxInt32 {
		return 0
	}
	return fdName(n + 1)
}

// String returns the name; "" for none.
func (n fdName) String() string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n) - 1)
}

// storeFD stores a duplicate of fd in the descriptor store and returns its name; "" if it is not
// stored.
func (s *Supervisor) storeFD(fd int, output bool) (name string) {
	if name = s.reserve(output); name != "" {
		s.keeper.Store(name, fd)
	}
	return name
}

// reserve returns a new name; "" if the store is full. Space for the descriptors of output is
// reserved: output in a pipe is lost without them.
func (s *Supervisor) reserve(output bool) (name string) {
	if s.keeper == host.FDStore(noopKeeper{}) {
		return ""
	}
	f := &s.fdStore
	name = strconv.Itoa(int(f.next))
	room := maxNames - f.bytes - len(name) - 1
	if !output {
		room -= s.registry.outputs * len("12345:") // reserved for the output of all programs
	}
	if room < 0 {
		if !f.fullLogged {
			f.fullLogged = true
			s.log.Warn("descriptor store is full: too many programs", "kept", f.count, "output", !output)
		}
		return ""
	}
	f.use(name)
	f.next++
	return name
}

// known marks a name that a predecessor has used, so that it is not reused.
func (f *fdStore) known(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		f.next = max(f.next, int32(n)+1)
	}
}

// has reports whether a descriptor is stored under the name.
func (f *fdStore) has(name string) bool {
	n, err := strconv.ParseInt(name, 10, 32)
	return err == nil && n >= 0 && f.names[int32(n)/64]&(1<<(n%64)) != 0
}

func (f *fdStore) use(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && n >= 0 && !f.has(name) {
		f.names[int32(n)/64] |= 1 << (n % 64)
		f.count++
		f.bytes += len(name) + 1
	}
}

func (f *fdStore) drop(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && f.has(name) {
		if f.names[int32(n)/64] &^= 1 << (n % 64); f.names[int32(n)/64] == 0 {
			delete(f.names, int32(n)/64)
		}
		f.count--
		f.bytes -= len(name) + 1
	}
}

// storeProcess stores the pidfd of a process in the descriptor store, from which a successor learns
// how the process ended. The store is batched with others. Until then a successor finds the process
// by its identity.
func (s *Supervisor) storeProcess(p host.Process) (name string) {
	if name = s.reserve(false); name != "" {
		s.pendingStores = append(s.pendingStores, pendingStore{name, p.FD()})
		s.recorder.writeSoon()
	}
	return name
}

type pendingStore struct {
	name string
	fd   int
}

func (s *Supervisor) flushStores() {
	for _, p := range s.pendingStores {
		s.keeper.Store(p.name, p.fd)
	}
	s.pendingStores = s.pendingStores[:0]
}

// flushReleases removes the released names from the descriptor store once the journal is written.
func (s *Supervisor) flushReleases() {
	if names := s.pendingReleases; len(names) > 0 {
		s.pendingReleases = nil
		s.recorder.afterRecorded(func() { s.discard(names) })
	}
}

// releaseFD removes the name from the descriptor store, when the journal does not refer to it any
// more.
func (s *Supervisor) releaseFD(name string) {
	if name == "" {
		return
	}
	s.dropPendingStore(name)
	s.pendingReleases = append(s.pendingReleases, name)
	s.recorder.writeSoon()
}

// releaseProcess is releaseFD for a process that has ended. During a shutdown it does not release
// names one by one: they go with the keeper, and a successor releases those that the journal does
// not have.
func (s *Supervisor) releaseProcess(name string) {
	if s.shutdown == nil {
		s.releaseFD(name)
	} else {
		s.dropPendingStore(name)
		s.keeper.Forget(name)
	}
}

// dropPendingStore cancels a batched store, as its descriptor is about to be closed.
func (s *Supervisor) dropPendingStore(name string) {
	s.pendingStores = slices.DeleteFunc(s.pendingStores, func(p pendingStore) bool { return p.name == name })
}

func (s *Supervisor) discard(names []string) {
	for _, name := range names {
		s.keeper.Discard(name)
		s.fdStore.drop(name)
	}
}

// saveExit acknowledges the exit of an adopted process to the keeper, once the journal has it.
func (s *Supervisor) saveExit(id pidfd.Identity) {
	key := host.ProcessKey{Pid: id.Pid, Start: id.Start}
	if s.adopted[key] == nil {
		return // superd's own child
	}
	delete(s.adopted, key)
	s.recorder.afterRecorded(func() { s.keeper.Acknowledge(id.Pid, id.Start) })
}

// A noopKeeper stores nothing.
type noopKeeper struct{}

func (noopKeeper) Store(string, int)       {}
func (noopKeeper) Discard(string)          {}
func (noopKeeper) Forget(string)           {}
func (noopKeeper) Acknowledge(int, uint64) {}
