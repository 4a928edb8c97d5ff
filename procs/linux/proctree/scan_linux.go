// Package proctree finds the processes of an instance by a scan of /proc, where it has no cgroup.
//
// A [Scanner] serves all trees, in a goroutine that runs while there are requests. A process
// belongs to a [Tree] by its ancestors, its session or group, its environment [Tags] or its FIFO.
package proctree

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
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
// that is one of a main process or hook; or by the instance's FIFO among its descriptors. A known
// orphan stays known.
//
// We cannot attribute an orphan that cleared its environment, started its own session and closed
// the FIFO, if its descendants did the same. It is logged, and ended when superd shuts down (see
// unattributed). Nor can we attribute a process that sleeps uninterruptibly for longer than a scan
// waits for it, if its environment is needed: the read might hang for as long as it sleeps. It is
// left alone.
//
// Processes that a predecessor started are not below this superd. Its main processes and hooks are
// known by their identity. Others are below them, or are searched for among all processes by the
// same signs. They leave no zombies with superd, so processes that fork faster than a scan may be
// missed.
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
	looks   []*look
	asks    []func([]host.Member) // requests for unattributed processes
	walking bool                  // a goroutine serves looks, asks and kills

	// children of this process from before it became superd
	before    map[host.ProcessKey]bool
	strangers map[host.ProcessKey]*unattributed // found by scans

	foreign int // number of trees whose processes may not be below superd
	// used by scans: examined processes that are not below superd; nil: they belong to no tree
	outsiders map[host.ProcessKey]*Tree
	// a tree has new signs since the last scan began: outsiders may belong to it
	learned bool
	mute    map[host.ProcessKey]bool // used by scans: processes for which it has waited in vain
	keeper  int                      // pid of superd's parent, which may have the FIFOs open

	// used by scans: known processes whose number no process had in the last scan
	unused     map[host.ProcessKey]bool
	unusedFrom uint64 // used by scans: value of reaped when that scan began
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

// A look waits for a process scan.
type look struct {
	tree   *Tree
	found  func([]host.Member)
	spawns int   // of the tree, when the scan began
	before *scan // a scan that found no process; nil: none yet
	tries  int   // number of scans so far
}

// A scan is the result of one scan of /proc.
type scan struct {
	stats   map[int]*procfs.Stat     // all processes by pid, zombies included
	orphans map[int]*Tree            // orphans whose tree is known, by pid
	mute    map[host.ProcessKey]bool // processes whose tags or descriptors could not be read
	members map[*Tree][]procfs.Stat  // live processes, by tree

	heads     []*procfs.Stat // children of superd whose tree is unknown
	strangers []procfs.Stat  // these and their descendants
	// ended orphans that are not reaped yet; nil: their tree is unknown
	zombies map[host.ProcessKey]*Tree
	from    uint64 // value of reaped at the begin
	to      uint64 // value of reaped at the end
}

// New returns a scanner without trees.
func New(o Options) *Scanner {
	c := &Scanner{options: o, self: os.Getpid(), group: unix.Getpgrp(), keeper: os.Getppid(),
		strangers: map[host.ProcessKey]*unattributed{},
		trees:     map[string]*Tree{}, register: register{known: map[host.ProcessKey]*Tree{}}}
	c.changed.L = &c.mu
	c.session, _ = unix.Getsid(0)
	if o.Inherits {
		c.before = childrenBefore()
	}
	return c
}

// NoteReaping records that an orphan is about to be reaped, so that a scan that misses the zombie
// notices.
func (c *Scanner) NoteReaping() { c.reaped.Add(1) }

const (
	// for one look: where orphans end all the time, it is never certain that no process is left
	maxWalks = 20
	// between scans while superd is short of descriptors
	shortagePause = 50 * time.Millisecond
	// bounds the looks at superd's own children at the end of a scan, while there are new ones
	tailSteps = 5
)

// request starts a process scan. The caller holds c.mu.
func (c *Scanner) request() {
	if !c.walking {
		c.walking = true
		go c.serve()
	}
}

// serve scans until there are no requests.
func (c *Scanner) serve() {
	for pause := time.Duration(0); ; {
		time.Sleep(pause)
		c.mu.Lock()
		looks, asks := c.looks, c.asks
		c.looks, c.asks = nil, nil
		var kills []*Tree
		for _, name := range slices.Sorted(maps.Keys(c.trees)) {
			if t := c.trees[name]; t.killing {
				kills = append(kills, t)
			}
		}
		if len(looks)+len(kills)+len(asks) == 0 {
			c.walking = false
			c.mu.Unlock()
			return
		}
		for _, l := range looks {
			if l.spawns != l.tree.spawns {
				l.spawns, l.before = l.tree.spawns, nil
			}
		}
		c.mu.Unlock()
		looks = slices.DeleteFunc(looks, c.answerAtOnce)
		if len(looks)+len(kills)+len(asks) == 0 {
			continue
		}

		w, err := c.scan()
		again := looks
		if err != nil { // short of descriptors
			pause = shortagePause
		} else {
			pause = c.serveKills(kills, w)
			c.meetStrangers(w, looks)
			asks = c.serveAsks(asks, w)
			again = slices.DeleteFunc(looks, func(l *look) bool { return c.answer(l, w) })
		}
		c.mu.Lock()
		c.looks, c.asks = append(again, c.looks...), append(asks, c.asks...)
		if len(c.looks) > 0 && err == nil {
			pause = 0
		}
		c.mu.Unlock()
	}
}

// answerAtOnce reports whether it answered the look without a scan, as no process of its tree is
// left.
func (c *Scanner) answerAtOnce(l *look) bool {
	if !l.tree.bereft(l.spawns) {
		return false
	}
	c.options.Post(func() { l.found(nil) })
	return true
}

// answer reports whether it answered the look from the scan.
//
// A scan that finds no process proves nothing by itself: a process may end before it is visited,
// and leave a child that came too late to be listed. But then it leaves a zombie with superd, if it
// was an orphan; and a process that is no orphan is below one or below a main process. So no
// process is left if a second scan finds none either, and finds the same zombies as the first.
func (c *Scanner) answer(l *look, w *scan) bool {
	members, err := openMembers(w.members[l.tree])
	switch {
	case len(members) > 0:
	// short of descriptors, or the found processes have ended meanwhile
	case err != nil || len(w.members[l.tree]) > 0:
		l.before, l.tries = nil, 0
		return false
	case l.before != nil && w.follows(l.before, l.tree):
		c.mu.Lock()
		if l.spawns == l.tree.spawns {
			l.tree.markEmpty()
		}
		c.mu.Unlock()
	case l.tries < maxWalks:
		l.before = w
		l.tries++
		return false
	}
	c.options.Post(func() { l.found(members) })
	return true
}

// follows reports whether no orphan has ended since before began, except for orphans known to be of
// other trees.
func (w *scan) follows(before *scan, tree *Tree) bool {
	return before.from == w.to && maps.Equal(before.zombiesOf(tree), w.zombiesOf(tree))
}

func (w *scan) zombiesOf(tree *Tree) map[host.ProcessKey]bool {
	some := map[host.ProcessKey]bool{}
	for key, t := range w.zombies {
		if t == nil || t == tree {
			some[key] = true
		}
	}
	return some
}

// scan visits all processes and attributes them to trees.
func (c *Scanner) scan() (*scan, error) {
	w := &scan{stats: map[int]*procfs.Stat{}, orphans: map[int]*Tree{}, from: c.reaped.Load()}
	pids, err := procfs.Pids()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	register := c.register.clone()
	if c.learned {
		c.learned, c.outsiders = false, nil
	}
	c.mu.Unlock()
	for _, pid := range pids {
		if _, err := c.visit(w, pid, register); err != nil {
			return nil, err
		}
	}
	for range tailSteps { // processes that became superd's children meanwhile
		any := false
		for pid := range procfs.Children(c.self) {
			fresh, err := c.visit(w, pid, register)
			if err != nil {
				return nil, err
			}
			any = any || fresh
		}
		if !any {
			break
		}
	}
	w.to = c.reaped.Load()
	c.attribute(w, register)
	if asked := w.mute; c.await(asked) {
		c.attribute(w, register)
		// await has not waited for these
		maps.DeleteFunc(w.mute, func(key host.ProcessKey, _ bool) bool { return !asked[key] })
	}
	c.mute = w.mute
	c.forgetUnused(w, register)
	return w, nil
}

// await waits until the processes in mute can be read, for at most askPatience. It skips processes
// for which it has waited in vain before. It reports whether it has waited.
func (c *Scanner) await(mute map[host.ProcessKey]bool) bool {
	waits := maps.Clone(mute)
	maps.DeleteFunc(waits, func(key host.ProcessKey, _ bool) bool { return c.mute[key] })
	if len(waits) == 0 {
		return false
	}
	for until := time.Now().Add(askPatience); len(waits) > 0 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		maps.DeleteFunc(waits, func(key host.ProcessKey, _ bool) bool {
			_, told, _ := readTags(key.Pid)
			return told
		})
	}
	return true
}

// visit reads a process and, if it is an orphan, attributes it at once: a moment later it may be
// gone. fresh means that the scan had not visited it before. The error is a shortage.
func (c *Scanner) visit(w *scan, pid int, r register) (fresh bool, err error) {
	if w.stats[pid] != nil {
		return false, nil
	}
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return true, shortage(err)
	}
	w.stats[pid] = &s
	if s.Parent == c.self && r.known[keyOf(&s)] == nil {
		tree := r.orphans[keyOf(&s)]
		if tree == nil {
			tree, _ = c.treeOf(&s, r)
		}
		if tree != nil {
			w.orphans[pid] = tree
		}
	}
	return true, nil
}

// ask is treeOf for a scan that has visited all processes.
func (c *Scanner) ask(w *scan, s *procfs.Stat, r register) *Tree {
	tree, told := c.treeOf(s, r)
	if !told {
		w.mute[keyOf(s)] = true
	}
	return tree
}

// attribute sets w.members, w.zombies and w.mute.
func (c *Scanner) attribute(w *scan, r register) {
	w.members, w.zombies, w.mute = map[*Tree][]procfs.Stat{}, map[host.ProcessKey]*Tree{}, map[host.ProcessKey]bool{}
	w.heads, w.strangers = nil, nil
	// by pid: known process or orphan that it is below, or is itself; nil: not below superd
	heads := map[int]*procfs.Stat{}
	var head func(s *procfs.Stat) *procfs.Stat
	head = func(s *procfs.Stat) *procfs.Stat {
		if h, ok := heads[s.Pid]; ok {
			return h
		}
		heads[s.Pid] = nil // ends a cycle, as reads at different times may show one
		var h *procfs.Stat
		parent := c.parentIn(w, s)
		switch {
		case s.Parent == c.self || r.known[keyOf(s)] != nil:
			h = s
		case parent != nil:
			h = head(parent)
		}
		heads[s.Pid] = h
		return h
	}
	families := map[*procfs.Stat][]*procfs.Stat{}
	for _, pid := range slices.Sorted(maps.Keys(w.stats)) {
		s := w.stats[pid]
		h := head(s)
		switch {
		case h == nil:
		case !s.Dead:
			families[h] = append(families[h], s)
		case s == h && r.known[keyOf(s)] == nil:
			w.zombies[keyOf(s)] = w.orphans[s.Pid]
		}
	}
	orphans := map[host.ProcessKey]*Tree{}
	for h, family := range families {
		tree := r.known[keyOf(h)]
		if tree == nil {
			tree = w.orphans[h.Pid]
			for i := 0; tree == nil && i < len(family); i++ {
				tree = c.ask(w, family[i], r)
			}
			if tree == nil {
				if c.isStranger(h, family, w) {
					w.heads = append(w.heads, h)
					for _, s := range family {
						w.strangers = append(w.strangers, *s)
					}
				}
				continue
			}
			orphans[keyOf(h)] = tree
		}
		for _, s := range family {
			w.members[tree] = append(w.members[tree], *s)
		}
	}
	c.attributeOutsiders(w, heads, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orphans = orphans
}

// attributeOutsiders adds to w.members the processes of a predecessor's trees that are not below a
// known process.
func (c *Scanner) attributeOutsiders(w *scan, heads map[int]*procfs.Stat, r register) {
	c.mu.Lock()
	foreign := c.foreign
	c.mu.Unlock()
	if foreign == 0 {
		c.outsiders = nil
		return
	}
	seen := make(map[host.ProcessKey]*Tree, len(w.stats))
	var treeOf func(s *procfs.Stat) *Tree
	treeOf = func(s *procfs.Stat) *Tree {
		key := keyOf(s)
		tree, ok := seen[key]
		if ok {
			return tree
		}
		seen[key] = nil // ends a cycle
		if tree, ok = c.outsiders[key]; !ok && s.Pid != c.keeper {
			tree = c.ask(w, s, r)
		}
		if parent := w.stats[s.Parent]; tree == nil && parent != nil && parent.Start <= s.Start && parent.Pid != c.self {
			tree = treeOf(parent)
		}
		if tree != nil && !tree.isForeign() {
			tree = nil
		}
		seen[key] = tree
		return tree
	}
	for _, pid := range slices.Sorted(maps.Keys(w.stats)) {
		s := w.stats[pid]
		if heads[pid] != nil || s.Dead || pid == c.self || pid == c.keeper {
			continue
		}
		if tree := treeOf(s); tree != nil {
			w.members[tree] = append(w.members[tree], *s)
		} else if w.mute[keyOf(s)] {
			delete(seen, keyOf(s))
		}
	}
	c.outsiders = seen
}

// parentIn returns the parent of s. It reads s again if the parent has ended since, as s then has
// another one.
func (c *Scanner) parentIn(w *scan, s *procfs.Stat) *procfs.Stat {
	for range 2 {
		if s.Parent == c.self {
			return nil
		}
		if p := w.stats[s.Parent]; p != nil && p.Start <= s.Start {
			return p
		}
		now, err := procfs.ReadStat(s.Pid)
		if err != nil || now.Start != s.Start {
			return nil
		}
		*s = now
	}
	return nil
}

// treeOf returns the tree to which an orphan, or a process below one, belongs. told is false if
// that can't be determined at present.
func (c *Scanner) treeOf(s *procfs.Stat, r register) (tree *Tree, told bool) {
	for _, number := range []int{s.Session, s.Group} {
		if t := r.byNumber(s, number); t != nil {
			return t, true
		}
	}
	if s.Dead {
		return nil, true
	}
	m, marked, _ := readTags(s.Pid)
	if t := c.byTags(m); t != nil {
		return t, true
	}
	tree, told = c.byFIFO(s.Pid)
	return tree, tree != nil || marked && told
}

func (c *Scanner) byTags(m Tags) *Tree {
	if m.Run == "" || m.Owner != c.options.RuntimeDir {
		return nil
	}
	name := m.Instance
	if m.Probe {
		name += host.ProbeSuffix
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trees[name]
}

// byFIFO looks for a FIFO of an instance among the descriptors of a process. told is false while
// the process still has descriptors of superd.
func (c *Scanner) byFIFO(pid int) (tree *Tree, told bool) {
	c.mu.Lock()
	fifos := map[string]*Tree{}
	for _, t := range c.trees {
		for _, fifo := range t.fifos {
			if fifo != "" {
				fifos[fifo] = t
			}
		}
	}
	c.mu.Unlock()
	// Between its fork and its exec, and during a part of the exec, a child of superd still runs
	// superd's binary and has superd's descriptors.
	own, err := os.Readlink("/proc/self/exe")
	if exe, e := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || e != nil || exe == own {
		return nil, !isShortage(e)
	}
	if s, err := procfs.ReadStat(pid); err != nil || s.InExec {
		return nil, err != nil && !isShortage(err)
	}
	for target := range procfs.OpenFiles(pid) {
		if t := fifos[target]; t != nil {
			return t, true
		}
	}
	return nil, true
}

// fifoPath returns the path that /proc shows for the FIFO open as fd; empty if there is none.
func fifoPath(fd int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !strings.HasPrefix(target, "/") {
		return ""
	}
	return target
}
