package procs

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A census finds the processes of all trees where there are no cgroups, in one walk of /proc for all that ask meanwhile.
//
// superd is a child subreaper: who loses his parent gets superd for one. So every process that a program has brought forth is a
// descendant of superd, whatever it has called, and is either below a main process or hook, which superd knows, or below an orphan,
// a child of superd that superd does not know. Of an orphan, all that is below belongs to one tree: to which, one of them tells
// by SUPERD_INSTANCE, SUPERD_OWNER and SUPERD_INVOCATION_ID in its environment, or by its session or process group, if that is
// one of a main process or hook, or by the instance's FIFO among its descriptors. Once known, an orphan stays known.
//
// An orphan that has cleared its environment, has a session of its own and no descriptor of the FIFO, and below which there is nobody
// who has less thoroughly, can't be attributed to a tree. Neither can one that sleeps uninterruptibly for longer than a walk waits for it, as long as
// its environment would have to be read: the read might wait for as long as it sleeps. They are left alone.
//
// What an earlier superd has started is not below this one: its main processes and hooks are known by their identity, and others are below
// them, or are looked for among all processes by the same signs. Nobody leaves a zombie with superd then, so that of those who fork faster than
// one can look some may be missed.
type census struct {
	kernel     *Kernel
	runtimeDir string
	why        error // why there are no cgroups
	self       int   // superd's pid
	session    int   // superd's
	group      int   // superd's

	reaped atomic.Uint64 // orphans that superd has reaped

	mu      sync.Mutex
	changed sync.Cond // a kill is over
	trees   map[string]*censusTree
	register
	looks   []*look
	walking bool // a goroutine serves looks and kills

	foreign   int                        // trees whose processes may be nobody's whom superd can see below itself
	outsiders map[processKey]*censusTree // walk's: those who are not below superd and have been examined; nil: they belong to no tree
	learned   bool                       // they may belong to a tree of which something has become known since the last walk began
	mute      map[processKey]bool        // walk's: for whom it has waited in vain
	keeper    int                        // pid of superd's parent, which may have the FIFOs open

	unused     map[processKey]bool // walk's: the known whose number nobody had in the last walk
	unusedFrom uint64              // walk's: orphans reaped when that began
}

// A look waits for the census.
type look struct {
	tree   *censusTree
	found  func([]Member)
	births int        // of the tree, when the walk began
	before *headcount // a walk that has met nobody; nil before
	tries  int        // walks so far
}

// A headcount is what one walk has met.
type headcount struct {
	stats   map[int]*procStat          // everybody by pid, zombies included
	orphans map[int]*censusTree        // by pid: those whose tree was found out
	mute    map[processKey]bool        // of whom it could not be told to which tree they belong
	members map[*censusTree][]procStat // who lives, by tree
	zombies map[processKey]*censusTree // orphans that have ended and are not reaped yet; nil where their tree is not known
	from    uint64                     // orphans reaped when it began
	to      uint64                     // and when it ended
}

func newCensus(k *Kernel, runtimeDir string, why error) *census {
	c := &census{kernel: k, runtimeDir: runtimeDir, why: why, self: os.Getpid(), group: unix.Getpgrp(), keeper: os.Getppid(),
		trees: map[string]*censusTree{}, register: register{known: map[processKey]*censusTree{}}}
	c.changed.L = &c.mu
	c.session, _ = unix.Getsid(0)
	return c
}

const (
	maxWalks  = 20 // for one look: where orphans end all the time, one can't be sure that nobody is left
	tailSteps = 5  // how often a walk looks at superd's own children at its end, as long as there are new ones
)

// request has the census made. The caller holds c.mu.
func (c *census) request() {
	if !c.walking {
		c.walking = true
		go c.serve()
	}
}

// serve walks until nobody asks any more.
func (c *census) serve() {
	for pause := time.Duration(0); ; {
		time.Sleep(pause)
		c.mu.Lock()
		looks := c.looks
		c.looks = nil
		var kills []*censusTree
		for _, name := range slices.Sorted(maps.Keys(c.trees)) {
			if t := c.trees[name]; t.killing {
				kills = append(kills, t)
			}
		}
		if len(looks)+len(kills) == 0 {
			c.walking = false
			c.mu.Unlock()
			return
		}
		for _, l := range looks {
			if l.births != l.tree.births {
				l.births, l.before = l.tree.births, nil
			}
		}
		c.mu.Unlock()
		looks = slices.DeleteFunc(looks, c.answerAtOnce)
		if len(looks)+len(kills) == 0 {
			continue
		}

		w, err := c.walk()
		again := looks
		if err != nil { // short of descriptors
			pause = lookPause
		} else {
			pause = c.serveKills(kills, w)
			again = slices.DeleteFunc(looks, func(l *look) bool { return c.answer(l, w) })
		}
		c.mu.Lock()
		c.looks = append(again, c.looks...)
		if len(c.looks) > 0 && err == nil {
			pause = 0
		}
		c.mu.Unlock()
	}
}

// answerAtOnce reports whether the look was answered without a walk, since nobody is left of its tree.
func (c *census) answerAtOnce(l *look) bool {
	if !l.tree.bereft(l.births) {
		return false
	}
	c.kernel.loop.Post(func() { l.found(nil) })
	return true
}

// answer reports whether the walk has answered the look.
//
// A walk that meets nobody proves nothing by itself, since a process may end before it is met and leave a child that came too late to be
// listed. But then it leaves a zombie too, with superd, if it was an orphan; and who is no orphan is below one or below a main process.
// So nobody is left if a second walk meets nobody either and finds the zombies of the first and no other.
func (c *census) answer(l *look, w *headcount) bool {
	members, err := openMembers(w.members[l.tree])
	switch {
	case len(members) > 0:
	case err != nil || len(w.members[l.tree]) > 0: // short of descriptors, or he has ended meanwhile
		l.before, l.tries = nil, 0
		return false
	case l.before != nil && w.follows(l.before, l.tree):
		c.mu.Lock()
		if l.births == l.tree.births {
			l.tree.settle()
		}
		c.mu.Unlock()
	case l.tries < maxWalks:
		l.before = w
		l.tries++
		return false
	}
	c.kernel.loop.Post(func() { l.found(members) })
	return true
}

// follows reports whether no orphan has ended since before began, leaving those aside that are not the tree's for sure.
func (w *headcount) follows(before *headcount, tree *censusTree) bool {
	return before.from == w.to && maps.Equal(before.zombiesOf(tree), w.zombiesOf(tree))
}

func (w *headcount) zombiesOf(tree *censusTree) map[processKey]bool {
	some := map[processKey]bool{}
	for key, t := range w.zombies {
		if t == nil || t == tree {
			some[key] = true
		}
	}
	return some
}

// walk meets everybody and finds out who belongs to which tree.
func (c *census) walk() (*headcount, error) {
	w := &headcount{stats: map[int]*procStat{}, orphans: map[int]*censusTree{}, from: c.reaped.Load()}
	pids, err := allPids()
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
		if _, err := c.meet(w, pid, register); err != nil {
			return nil, err
		}
	}
	for range tailSteps { // those who came to superd meanwhile
		any := false
		for pid := range childrenOf(c.self) {
			fresh, err := c.meet(w, pid, register)
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
		maps.DeleteFunc(w.mute, func(key processKey, _ bool) bool { return !asked[key] }) // nobody has waited for these
	}
	c.mute = w.mute
	c.forgetUnused(w, register)
	return w, nil
}

// await waits for those who could not tell whose they are, until they can, but for nobody for whom it has waited in vain before. It reports whether
// it has waited.
func (c *census) await(mute map[processKey]bool) bool {
	waits := maps.Clone(mute)
	maps.DeleteFunc(waits, func(key processKey, _ bool) bool { return c.mute[key] })
	if len(waits) == 0 {
		return false
	}
	for until := time.Now().Add(askPatience); len(waits) > 0 && time.Now().Before(until); time.Sleep(time.Millisecond) {
		maps.DeleteFunc(waits, func(key processKey, _ bool) bool {
			_, told, _ := readMarks(key.pid)
			return told
		})
	}
	return true
}

// meet notes a process, and, if it is an orphan, at once what tells its tree: a moment later it may be gone. fresh tells that it was not
// known to the walk before. The error is a shortage.
func (c *census) meet(w *headcount, pid int, r register) (fresh bool, err error) {
	if w.stats[pid] != nil {
		return false, nil
	}
	s, err := readStat(pid)
	if err != nil {
		return true, shortage(err)
	}
	w.stats[pid] = &s
	if s.parent == c.self && r.known[s.key()] == nil {
		tree := r.orphans[s.key()]
		if tree == nil {
			tree, _ = c.treeOf(&s, r)
		}
		if tree != nil {
			w.orphans[pid] = tree
		}
	}
	return true, nil
}

// ask is treeOf for a walk that has met everybody.
func (c *census) ask(w *headcount, s *procStat, r register) *censusTree {
	tree, told := c.treeOf(s, r)
	if !told {
		w.mute[s.key()] = true
	}
	return tree
}

// attribute fills in w.members, w.zombies and w.mute.
func (c *census) attribute(w *headcount, r register) {
	w.members, w.zombies, w.mute = map[*censusTree][]procStat{}, map[processKey]*censusTree{}, map[processKey]bool{}
	heads := map[int]*procStat{} // by pid: the known process or the orphan that it is below, or is; nil: none of ours
	var head func(s *procStat) *procStat
	head = func(s *procStat) *procStat {
		if h, ok := heads[s.pid]; ok {
			return h
		}
		heads[s.pid] = nil // ends a circle, which reading at different times might show
		var h *procStat
		parent := c.parentIn(w, s)
		switch {
		case s.parent == c.self || r.known[s.key()] != nil:
			h = s
		case parent != nil:
			h = head(parent)
		}
		heads[s.pid] = h
		return h
	}
	families := map[*procStat][]*procStat{}
	for _, pid := range slices.Sorted(maps.Keys(w.stats)) {
		s := w.stats[pid]
		h := head(s)
		switch {
		case h == nil:
		case !s.dead:
			families[h] = append(families[h], s)
		case s == h && r.known[s.key()] == nil:
			w.zombies[s.key()] = w.orphans[s.pid]
		}
	}
	orphans := map[processKey]*censusTree{}
	for h, family := range families {
		tree := r.known[h.key()]
		if tree == nil {
			tree = w.orphans[h.pid]
			for i := 0; tree == nil && i < len(family); i++ {
				tree = c.ask(w, family[i], r)
			}
			if tree == nil {
				continue
			}
			orphans[h.key()] = tree
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

// attributeOutsiders adds to w.members who belongs to the trees of an earlier superd and is below nobody whom superd knows.
func (c *census) attributeOutsiders(w *headcount, heads map[int]*procStat, r register) {
	c.mu.Lock()
	foreign := c.foreign
	c.mu.Unlock()
	if foreign == 0 {
		c.outsiders = nil
		return
	}
	seen := make(map[processKey]*censusTree, len(w.stats))
	var treeOf func(s *procStat) *censusTree
	treeOf = func(s *procStat) *censusTree {
		key := s.key()
		tree, ok := seen[key]
		if ok {
			return tree
		}
		seen[key] = nil // ends a circle
		if tree, ok = c.outsiders[key]; !ok && s.pid != c.keeper {
			tree = c.ask(w, s, r)
		}
		if parent := w.stats[s.parent]; tree == nil && parent != nil && parent.start <= s.start && parent.pid != c.self {
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
		if heads[pid] != nil || s.dead || pid == c.self || pid == c.keeper {
			continue
		}
		if tree := treeOf(s); tree != nil {
			w.members[tree] = append(w.members[tree], *s)
		} else if w.mute[s.key()] {
			delete(seen, s.key())
		}
	}
	c.outsiders = seen
}

// parentIn returns the parent of s. If that has ended since s was read, s has got another by now.
func (c *census) parentIn(w *headcount, s *procStat) *procStat {
	for range 2 {
		if s.parent == c.self {
			return nil
		}
		if p := w.stats[s.parent]; p != nil && p.start <= s.start {
			return p
		}
		now, err := readStat(s.pid)
		if err != nil || now.start != s.start {
			return nil
		}
		*s = now
	}
	return nil
}

// treeOf finds out to which tree an orphan, or one who is below an orphan, belongs. told is false if that can't be told just now.
func (c *census) treeOf(s *procStat, r register) (tree *censusTree, told bool) {
	for _, number := range []int{s.session, s.group} {
		if t := r.byNumber(s, number); t != nil {
			return t, true
		}
	}
	if s.dead {
		return nil, true
	}
	m, marked, _ := readMarks(s.pid)
	if t := c.byMarks(m); t != nil {
		return t, true
	}
	tree, told = c.byFIFO(s.pid)
	return tree, tree != nil || marked && told
}

func (c *census) byMarks(m marks) *censusTree {
	if m.run == "" || m.owner != c.runtimeDir {
		return nil
	}
	name := m.instance
	if m.probe {
		name += probeSuffix
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trees[name]
}

// byFIFO looks for a FIFO of an instance among the descriptors of a process. told is false where it has others' descriptors yet, too.
func (c *census) byFIFO(pid int) (tree *censusTree, told bool) {
	c.mu.Lock()
	fifos := map[string]*censusTree{}
	for _, t := range c.trees {
		for _, fifo := range t.fifos {
			if fifo != "" {
				fifos[fifo] = t
			}
		}
	}
	c.mu.Unlock()
	// A child of superd that is superd still, between its fork and its exec, has superd's descriptors, and for a part of the exec, too.
	own, err := os.Readlink("/proc/self/exe")
	if exe, e := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || e != nil || exe == own {
		return nil, !isShortage(e)
	}
	if s, err := readStat(pid); err != nil || s.bare {
		return nil, err != nil && !isShortage(err)
	}
	for target := range filesOf(pid) {
		if t := fifos[target]; t != nil {
			return t, true
		}
	}
	return nil, true
}

// fifoPath returns the path by which /proc shows the FIFO that fd is open on.
func fifoPath(fd int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !strings.HasPrefix(target, "/") {
		return ""
	}
	return target
}
