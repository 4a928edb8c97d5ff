package procs

import (
	"math"
	"slices"
	"strconv"

	"superd/pidfd"
)

// maxNames bounds the names of what the keeper keeps: they come back in one variable of the environment, which holds 128 KiB.
const maxNames = 100 << 10

// A keeping is what the keeper keeps for this superd. Names are numbers. One is never used again as long as a record or the keeper may speak of it: which of the
// two a superd that is killed has told last, the next one can't know.
type keeping struct {
	names map[int32]uint64 // a bit for each that is in use, by 64
	count int              // of these
	next  int32            // greater than any name so far
	bytes int              // of the names, each with the colon behind it
	told  bool             // that there are too many
}

// A keptName is the name of something that the keeper keeps, as who has thousands of them remembers it: one more than the number; 0: there is none.
type keptName int32

// keptNameOf returns the name as it is remembered; one that is no number is none.
func keptNameOf(name string) keptName {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil || n < 0 || n == math.MaxInt32 {
		return 0
	}
	return keptName(n + 1)
}

// String returns the name, "" where there is none.
func (k keptName) String() string {
	if k == 0 {
		return ""
	}
	return strconv.Itoa(int(k) - 1)
}

// keep has the keeper keep a duplicate of fd and returns the name for it; "" where it doesn't.
func (s *Supervisor) keep(fd int, output bool) (name string) {
	if name = s.reserve(output); name != "" {
		s.keeper.Store(name, fd)
	}
	return name
}

// reserve returns a name for something that is to be kept; "" where it can't be. Where not everything can be kept, it is output alone: that
// can't be had otherwise.
func (s *Supervisor) reserve(output bool) (name string) {
	if s.keeper == Keeper(nobody{}) {
		return ""
	}
	k := &s.keeping
	name = strconv.Itoa(int(k.next))
	room := maxNames - k.bytes - len(name) - 1
	if !output {
		room -= s.outputs * len("12345:") // for the output of all
	}
	if room < 0 {
		if !k.told {
			k.told = true
			s.log.Warn("not everything can be kept for the next superd: there are too many programs", "kept", k.count, "output", !output)
		}
		return ""
	}
	k.use(name)
	k.next++
	return name
}

// known notes a name that an earlier superd has given.
func (k *keeping) known(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil {
		k.next = max(k.next, int32(n)+1)
	}
}

// has reports whether something is kept under the name.
func (k *keeping) has(name string) bool {
	n, err := strconv.ParseInt(name, 10, 32)
	return err == nil && n >= 0 && k.names[int32(n)/64]&(1<<(n%64)) != 0
}

// use notes that something is kept under the name.
func (k *keeping) use(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && n >= 0 && !k.has(name) {
		k.names[int32(n)/64] |= 1 << (n % 64)
		k.count++
		k.bytes += len(name) + 1
	}
}

// drop notes that nothing is kept under the name any more.
func (k *keeping) drop(name string) {
	if n, err := strconv.ParseInt(name, 10, 32); err == nil && k.has(name) {
		if k.names[int32(n)/64] &^= 1 << (n % 64); k.names[int32(n)/64] == 0 {
			delete(k.names, int32(n)/64)
		}
		k.count--
		k.bytes -= len(name) + 1
	}
}

// keepProcess has the keeper keep the pidfd of a process, by which the next superd learns how it ended. It is told with others: until then that one
// finds the process by its identity.
func (s *Supervisor) keepProcess(p Process) (name string) {
	if name = s.reserve(false); name != "" {
		s.toKeep = append(s.toKeep, toKeep{name, p.FD()})
		s.WriteSoon()
	}
	return name
}

// A toKeep is a descriptor of which the keeper is to be told.
type toKeep struct {
	name string
	fd   int
}

// tellKeeper has the keeper keep what waits for that.
func (s *Supervisor) tellKeeper() {
	for _, k := range s.toKeep {
		s.keeper.Store(k.name, k.fd)
	}
	s.toKeep = s.toKeep[:0]
}

// letGo has the keeper let go of what it has under the name, as soon as the journal doesn't speak of it any more.
func (s *Supervisor) letGo(name string) {
	if name == "" {
		return
	}
	s.forgetToKeep(name)
	s.unneeded = append(s.unneeded, name)
	s.WriteSoon()
}

// letGoOfProcess is letGo for a process that has ended. In a shutdown nobody has to let go of a thousand of these one by one: they go with the keeper, and
// should another superd come before, it has the keeper let go of what the journal doesn't speak of.
func (s *Supervisor) letGoOfProcess(name string) {
	if s.shutdown == nil {
		s.letGo(name)
	} else {
		s.forgetToKeep(name)
		s.keeper.Forget(name)
	}
}

// forgetToKeep has the keeper not told of what waits under the name: its descriptor is closed.
func (s *Supervisor) forgetToKeep(name string) {
	s.toKeep = slices.DeleteFunc(s.toKeep, func(k toKeep) bool { return k.name == name })
}

// discard has the keeper let go of what it has under these names.
func (s *Supervisor) discard(names []string) {
	for _, name := range names {
		s.keeper.Discard(name)
		s.keeping.drop(name)
	}
}

// saveExit tells the keeper that the exit of a process is known, as soon as that is in the journal.
func (s *Supervisor) saveExit(id pidfd.Identity) {
	key := processKey{id.Pid, id.Start}
	if s.adopted[key] == nil {
		return // a child of superd's own
	}
	delete(s.adopted, key)
	s.afterTurn(func() { s.keeper.Acknowledge(id.Pid, id.Start) })
}

// afterTurn runs f on the loop when what is known at the end of this turn is in the journal.
func (s *Supervisor) afterTurn(f func()) {
	s.scope.Post(func() { s.afterSaving(f) })
}
