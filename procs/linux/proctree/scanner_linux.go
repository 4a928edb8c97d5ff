// Package proctree finds the processes of an instance by a scan of /proc, where it has no cgroup.
//
// A [Scanner] serves all trees, in a goroutine that runs while there are requests. A process
// belongs to a [Tree] by its ancestors, its session or group, its environment [Tags] or its FIFO.
package proctree

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/internal/procfs"
	"superd/procs/host"
)

// A Scanner finds the processes of all trees without cgroups. One scan of /proc serves all
// requests that arrived before it.
//
// superd is a child subreaper: it becomes the parent of orphans. So each process that a program
// started is a descendant of superd, whatever it has called. It is below a main process or hook,
// which superd knows, or below an orphan, a child of superd that superd does not know. All
// processes below an orphan belong to one tree. One of them identifies it: by SUPERD_INSTANCE,
// SUPERD_OWNER and SUPERD_INVOCATION_ID in its environment; by its session or process group, if
// that is one of a main process or hook; or by the instance's FIFO among its descriptors. Once an
// orphan is attributed, it stays so.
//
// We cannot attribute an orphan that cleared its environment, started its own session and closed
// the FIFO, if its descendants did the same. It is logged, and ended when superd shuts down (see
// [Scanner.Unattributed]). Nor can we attribute a process that sleeps uninterruptibly for longer
// than a scan waits for it, if its environment is needed: the read might hang for as long as it
// sleeps. It is left alone.
//
// Processes that a predecessor started are not below this superd. It knows their main processes and
// hooks by pid and start time. Others are below them, or are searched for among all processes by
// the same signs. They leave no zombies with superd, so processes that fork faster than a scan may
// be missed.
type Scanner struct {
	options Options
	self    int // superd's pid
	session int // superd's
	group   int // superd's

	reaped atomic.Uint64 // number of orphans that superd has reaped

	mu      sync.Mutex
	changed sync.Cond // signals the end of a kill
	trees   map[string]*Tree
	register
	fifoDir              string // directory of the first FIFO, with a slash; "" before that
	memberRequests       []*memberRequest
	unattributedRequests []func([]host.Member) // requests for unattributed processes
	serving              bool                  // a goroutine serves requests and kills

	// children of this process from before it became superd
	before       map[host.ProcessKey]bool
	unattributed map[host.ProcessKey]*unattributed // found by scans

	foreign int // number of trees whose processes may not be below superd
	// used by scans: trees of processes that are not below superd; nil: no tree
	outsiders map[host.ProcessKey]*Tree
	// a tree got roots or FIFOs since the last scan began: outsiders may belong to it
	outsidersStale bool
	unreadable     map[host.ProcessKey]bool // used by scans: processes unreadable in the last scan
	keeper         int                      // pid of superd's parent, which may have the FIFOs open

	// used by scans: roots whose number no process had in the last scan
	unusedRoots     map[host.ProcessKey]bool
	unusedRootsFrom uint64 // used by scans: value of reaped when that scan began
}

// Options are what a [Scanner] needs of the host.
type Options struct {
	RuntimeDir string
	Log        *slog.Logger
	Post       func(func()) // runs a function on the loop

	// IsNew reports whether the loop does not know the child with that pid yet.
	IsNew func(pid int) bool
	// Refuse returns why a start with these limits fails, as no scan enforces them; nil if there
	// are none.
	Refuse func(limits *config.Limits) error

	Inherits           bool // this process may have children from before it became superd
	SparesUnattributed bool // it had such children: unattributed processes may be theirs
}

// A memberRequest asks for the processes of a tree.
type memberRequest struct {
	tree   *Tree
	done   func([]host.Member)
	spawns int32 // starts of the tree when the scan began
	before *scan // a scan that found no process; nil: none yet
	tries  int   // number of scans so far
}

// A scan is the result of one scan of /proc.
type scan struct {
	kills      []*Tree                  // trees whose orphans are killed when they are visited
	stats      map[int]*procfs.Stat     // all processes by pid, zombies included
	orphans    map[int]*Tree            // trees of attributed orphans, by pid
	unreadable map[host.ProcessKey]bool // processes whose tags or descriptors could not be read
	members    map[*Tree][]procfs.Stat  // live processes, by tree

	unattributedRoots []*procfs.Stat // children of superd without a tree
	unattributed      []procfs.Stat  // these and their descendants
	// ended orphans that are not reaped yet; nil: their tree is unknown
	zombies map[host.ProcessKey]*Tree
	from    uint64 // value of reaped at the begin
	to      uint64 // value of reaped at the end
}

// New returns a scanner without trees.
func New(o Options) *Scanner {
	c := &Scanner{options: o, self: os.Getpid(), group: unix.Getpgrp(), keeper: os.Getppid(),
		unattributed: map[host.ProcessKey]*unattributed{},
		trees:        map[string]*Tree{}, register: register{roots: map[host.ProcessKey]*Tree{}}}
	c.changed.L = &c.mu
	c.session, _ = unix.Getsid(0)
	if o.Inherits {
		c.before = earlierChildren()
	}
	return c
}

// NoteReaping counts an orphan that is about to be reaped. A scan may miss its zombie.
func (c *Scanner) NoteReaping() { c.reaped.Add(1) }

// An unattributed is a child of superd whose tree no scan can find: it has cleared its environment,
// has a session of its own, and has closed the program's output.
type unattributed struct {
	stat      procfs.Stat
	instances []string // instances that requested the scan which found it first
}

// A Tree is the [host.Tree] of an instance that has no cgroup. Its fields are guarded by
// scanner.mu, or belong to the goroutine in [Scanner.serve].
type Tree struct {
	scanner  *Scanner
	instance string

	// lower bound of its processes' start times, in clock ticks since boot; valid while
	// mayHaveProcesses and not foreign
	since  uint64
	spawns int32 // number of starts so far
	// starts since then whose process is not in roots: it is not registered yet, there is none, or
	// there were too many
	unregistered     int32
	mayHaveProcesses bool // no scan has shown that it is empty
	foreign          bool // a predecessor may have started its processes
	killing          bool
	hasPlainFIFO     bool               // an output has its name, in scanner.fifoDir
	roots            []host.ProcessKey  // its part of scanner.roots, oldest first
	oneRoot          [1]host.ProcessKey // storage of roots; most trees have one
	fifos            []string           // paths of its other outputs as in /proc

	killUntil time.Time
	killed    map[host.ProcessKey]bool // used by serve: processes that got SIGKILL
	// used by serve: the last scan during the kill, if it found no process of the tree
	emptyScan *scan
}

// A register maps processes to trees. A root is a main process or hook: superd started it.
type register struct {
	roots   map[host.ProcessKey]*Tree // kept until the number is free
	orphans map[host.ProcessKey]*Tree // orphans attributed by the last scan
	byPid   map[int][]host.ProcessKey // index of roots; only in a clone
}

// NewTree returns the tree of an instance. If inherited, processes of a predecessor may live in it.
func (c *Scanner) NewTree(instance string, inherited bool) *Tree {
	t := &Tree{scanner: c, instance: instance, mayHaveProcesses: inherited, foreign: inherited}
	t.roots = t.oneRoot[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if inherited {
		c.foreign++
	}
	c.trees[instance] = t
	c.outsidersStale = c.outsidersStale || inherited
	return t
}

// clone returns a copy with an index by pid.
func (r register) clone() register {
	byPid := make(map[int][]host.ProcessKey, len(r.roots))
	for k := range r.roots {
		byPid[k.Pid] = append(byPid[k.Pid], k)
	}
	return register{maps.Clone(r.roots), maps.Clone(r.orphans), byPid}
}

// byNumber returns the tree of the root whose pid is number, the session or group of s; nil if
// there is none. The kernel does not reuse a number while a session or group has it. So it is the
// number of the last process with that pid that began before s.
func (r register) byNumber(s *procfs.Stat, number int) *Tree {
	var last host.ProcessKey
	for _, k := range r.byPid[number] {
		if k.Start <= s.Start && k.Start >= last.Start {
			last = k
		}
	}
	tree := r.roots[last]
	if tree == nil {
		return nil
	}
	if now, err := procfs.ReadStat(number); err == nil && keyOf(&now) != last {
		return nil // the pid was reused, and the session or group with it
	}
	return tree
}

// maxRoots bounds the roots of a tree. Where kill_mode spares processes, there may be no scan
// between the starts, so that none is removed.
const maxRoots = 100

// addRoot registers a main process or hook. The caller holds c.mu.
func (t *Tree) addRoot(id host.ProcessKey) {
	if len(t.roots) == maxRoots {
		t.removeRoots(t.roots[0])
		t.unregistered++
	}
	t.roots = append(t.roots, id)
	t.scanner.roots[id] = t
	t.scanner.outsidersStale = t.scanner.outsidersStale || t.foreign
}

// removeRoots unregisters main processes and hooks. The caller holds c.mu.
func (t *Tree) removeRoots(roots ...host.ProcessKey) {
	for _, id := range roots {
		delete(t.scanner.roots, id)
	}
	t.roots = slices.DeleteFunc(t.roots, func(id host.ProcessKey) bool { return t.scanner.roots[id] != t })
}

// setEmpty records that no process lives in the tree. The caller holds c.mu.
func (t *Tree) setEmpty() {
	if t.mayHaveProcesses = false; t.foreign {
		t.foreign = false
		t.scanner.foreign--
	}
	t.removeRoots(t.roots...) // their numbers may be reused
}

func (t *Tree) isForeign() bool {
	t.scanner.mu.Lock()
	defer t.scanner.mu.Unlock()
	return t.foreign
}

// earlierChildren returns the children that this process had before it became superd, as after an
// exec from a shell.
func earlierChildren() map[host.ProcessKey]bool {
	before := map[host.ProcessKey]bool{}
	for pid := range procfs.Children(os.Getpid()) {
		if s, err := procfs.ReadStat(pid); err == nil {
			before[keyOf(&s)] = true
		}
	}
	return before
}
