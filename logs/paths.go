package logs

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// paths stores the segments of each path. A path has several while the archive or a hanging write
// still uses older ones: its program was removed and added again, or its log moved elsewhere and
// back. They share a lock, and changes to files are applied to all of them. Only one of them
// writes.
type paths struct {
	mu       sync.Mutex
	segments []*segments // by path, the newest of each first
	// freed is closed when segments that were written to are retired; nil: nothing waits for that.
	freed       chan struct{}
	compressing string // path of the compressed file that is being written; "": none
}

// add registers new segments, with one user.
func (p *paths) add(segs *segments) {
	if segs.path == "" { // a sink
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	segs.paths, segs.users = p, 1
	at, list := p.samePath(segs.path)
	if len(list) > 0 {
		segs.disk = list[0].disk
	}
	p.segments = slices.Insert(p.segments, at, segs)
}

// samePath returns the segments of a path, and the index of the first one. The caller holds mu.
func (p *paths) samePath(path string) (at int, list []*segments) {
	at = sort.Search(len(p.segments), func(i int) bool { return p.segments[i].path >= path })
	end := at
	for end < len(p.segments) && p.segments[end].path == path {
		end++
	}
	return at, p.segments[at:end]
}

// addUser counts one more user.
func (p *paths) addUser(segs *segments) {
	p.mu.Lock()
	defer p.mu.Unlock()
	segs.users++
}

// removeUser counts one user less; after the last one the segments are removed.
func (p *paths) removeUser(segs *segments) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if segs.users--; segs.users > 0 || segs.path == "" {
		return
	}
	at, list := p.samePath(segs.path)
	at += slices.Index(list, segs)
	p.segments = slices.Delete(p.segments, at, at+1)
}

// all returns the newest segments of each path.
func (p *paths) all() []*segments {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.CompactFunc(slices.Clone(p.segments), func(a, b *segments) bool { return a.path == b.path })
}

// each calls f for all segments of the path of segs, including segs. The caller holds disk.
func (segs *segments) each(f func(*segments)) {
	if segs.paths == nil {
		f(segs)
		return
	}
	segs.paths.mu.Lock()
	defer segs.paths.mu.Unlock()
	_, list := segs.paths.samePath(segs.path)
	for _, one := range list {
		f(one)
	}
}

// claimTimeout is how long a log waits at most for an earlier writer to its path.
const claimTimeout = 200 * time.Millisecond

// claimWriting makes segs the segments that write to the path. If others still do, it waits for
// claimTimeout at most, and then reports false.
func (segs *segments) claimWriting() bool {
	p := segs.paths
	if p == nil {
		return true
	}
	var timeout <-chan time.Time
	for {
		p.mu.Lock()
		_, list := p.samePath(segs.path)
		if !slices.ContainsFunc(list, func(one *segments) bool { return one != segs && one.writes }) {
			segs.writes = true
			p.mu.Unlock()
			return true
		}
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		freed := p.freed
		p.mu.Unlock()
		if timeout == nil {
			timeout = time.After(claimTimeout)
		}
		select {
		case <-freed:
		case <-timeout:
			return false
		}
	}
}

// endWriting ends the writing to segs and counts one user less.
func (p *paths) endWriting(segs *segments) {
	p.mu.Lock()
	if segs.writes && p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	segs.writes = false
	p.mu.Unlock()
	p.removeUser(segs)
}

// alone reports whether segs are the only segments of the path.
func (segs *segments) alone() bool {
	n := 0
	segs.each(func(*segments) { n++ })
	return n <= 1
}

// setCompressing records which compressed file is being written; "": none.
func (segs *segments) setCompressing(name string) {
	if p := segs.paths; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.compressing = name
	}
}

// isCompressing reports whether name is the compressed file that is being written.
func (segs *segments) isCompressing(name string) bool {
	if segs.paths == nil {
		return false
	}
	segs.paths.mu.Lock()
	defer segs.paths.mu.Unlock()
	return segs.paths.compressing == name
}
