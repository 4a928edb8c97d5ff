package logs

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// paths holds the segments of each path. A path has several while the archive or a hanging write
// still uses older ones: its program was removed and added again, or its log moved elsewhere and
// back. They share a lock, and changes to files are applied to all of them. Only one of them
// writes.
type paths struct {
	mu       sync.Mutex
	segments []*segments // by path, the newest of each first
	// freed is closed when segments that were written to are retired; nil: nothing waits for that.
	freed chan struct{}
	wraps string // path of the compressed file that is being written
}

// add registers new segments, with one user.
func (p *paths) add(ch *segments) {
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
	p.segments = slices.Insert(p.segments, at, ch)
}

// of returns the segments of a path, and their index. The caller holds mu.
func (p *paths) of(path string) (at int, twins []*segments) {
	at = sort.Search(len(p.segments), func(i int) bool { return p.segments[i].path >= path })
	end := at
	for end < len(p.segments) && p.segments[end].path == path {
		end++
	}
	return at, p.segments[at:end]
}

// keep counts one more user.
func (p *paths) keep(ch *segments) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch.users++
}

// leave counts one user less; after the last one the segments are removed.
func (p *paths) leave(ch *segments) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch.users--; ch.users > 0 || ch.path == "" {
		return
	}
	at, twins := p.of(ch.path)
	at += slices.Index(twins, ch)
	p.segments = slices.Delete(p.segments, at, at+1)
}

// all returns the newest segments of each path.
func (p *paths) all() []*segments {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.CompactFunc(slices.Clone(p.segments), func(a, b *segments) bool { return a.path == b.path })
}

// each calls f for all segments of the path of ch, with ch. The caller holds disk.
func (ch *segments) each(f func(*segments)) {
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

// claimPatience is how long a log waits at most for an earlier writer to its path.
const claimPatience = 200 * time.Millisecond

// claim makes ch the segments that write to the path. If others still do, it waits for
// claimPatience at most, and then reports false.
func (ch *segments) claim() bool {
	p := ch.paths
	if p == nil {
		return true
	}
	var late <-chan time.Time
	for {
		p.mu.Lock()
		_, twins := p.of(ch.path)
		if !slices.ContainsFunc(twins, func(one *segments) bool { return one != ch && one.writes }) {
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
			late = time.After(claimPatience)
		}
		select {
		case <-freed:
		case <-late:
			return false
		}
	}
}

// retire ends the writing to ch and counts one user less.
func (p *paths) retire(ch *segments) {
	p.mu.Lock()
	if ch.writes && p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	ch.writes = false
	p.mu.Unlock()
	p.leave(ch)
}

// alone reports whether ch are the only segments of the path.
func (ch *segments) alone() bool {
	n := 0
	ch.each(func(*segments) { n++ })
	return n <= 1
}

// wrap records which compressed file is being written; "": none.
func (ch *segments) wrap(name string) {
	if p := ch.paths; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wraps = name
	}
}

// wrapping reports whether name is the compressed file that is being written.
func (ch *segments) wrapping(name string) bool {
	if ch.paths == nil {
		return false
	}
	ch.paths.mu.Lock()
	defer ch.paths.mu.Unlock()
	return ch.paths.wraps == name
}
