package logs

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// paths knows the chains of each path. There are several while a program is removed and added again, or its log goes elsewhere and comes back, and
// somebody is at work for the one of before yet: the archive, or a write that hangs. What one of them does to files the others are told, under a
// lock that they have in common, and one of them writes.
type paths struct {
	mu     sync.Mutex
	chains []*chain      // by path, the newest one of each first
	freed  chan struct{} // closed when a chain that was written to has gone; nil: nobody waits for that
	wraps  string        // the compressed file that is being written
}

// add has a new chain be known, with one user.
func (p *paths) add(ch *chain) {
	if ch.path == "" { // a sink
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.paths, ch.users = p, 1
	at, twins := p.of(ch.path)
	if len(twins) > 0 {
		ch.disk = twins[0].disk
	}
	p.chains = slices.Insert(p.chains, at, ch)
}

// of returns the chains of a path, and where they are. The caller holds mu.
func (p *paths) of(path string) (at int, twins []*chain) {
	at = sort.Search(len(p.chains), func(i int) bool { return p.chains[i].path >= path })
	end := at
	for end < len(p.chains) && p.chains[end].path == path {
		end++
	}
	return at, p.chains[at:end]
}

// keep has a chain have one user more.
func (p *paths) keep(ch *chain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.users++
}

// leave has it have one less; after the last one it is forgotten.
func (p *paths) leave(ch *chain) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch.users--; ch.users > 0 || ch.path == "" {
		return
	}
	at, twins := p.of(ch.path)
	at += slices.Index(twins, ch)
	p.chains = slices.Delete(p.chains, at, at+1)
}

// all returns the chains of all paths, of each the newest one.
func (p *paths) all() []*chain {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.CompactFunc(slices.Clone(p.chains), func(a, b *chain) bool { return a.path == b.path })
}

// each calls f for all chains of the path of one, that one among them. It is for those who hold disk.
func (ch *chain) each(f func(*chain)) {
	if ch.paths == nil {
		f(ch)
		return
	}
	ch.paths.mu.Lock()
	defer ch.paths.mu.Unlock()
	_, twins := ch.paths.of(ch.path)
	for _, one := range twins {
		f(one)
	}
}

// claim has a chain be the one of its path that is written to. It waits a moment if that is another one yet, and reports false if it stays so.
func (ch *chain) claim() bool {
	p := ch.paths
	if p == nil {
		return true
	}
	var late <-chan time.Time
	for {
		p.mu.Lock()
		_, twins := p.of(ch.path)
		if !slices.ContainsFunc(twins, func(one *chain) bool { return one != ch && one.writes }) {
			ch.writes = true
			p.mu.Unlock()
			return true
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		if late == nil {
			late = time.After(lateAfter)
		}
		select {
		case <-freed:
		case <-late:
			return false
		}
	}
}

// retire tells that a chain is not written to any more, and has one user less.
func (p *paths) retire(ch *chain) {
	p.mu.Lock()
	if ch.writes && p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	ch.writes = false
	p.mu.Unlock()
	p.leave(ch)
}

// alone reports whether no other chain has this path.
func (ch *chain) alone() bool {
	n := 0
	ch.each(func(*chain) { n++ })
	return n <= 1
}

// wrap notes which compressed file is being written; "": none.
func (ch *chain) wrap(name string) {
	if p := ch.paths; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wraps = name
	}
}

// wrapping reports whether that is the compressed file that is being written.
func (ch *chain) wrapping(name string) bool {
	if ch.paths == nil {
		return false
	}
	ch.paths.mu.Lock()
	defer ch.paths.mu.Unlock()
	return ch.paths.wraps == name
}
