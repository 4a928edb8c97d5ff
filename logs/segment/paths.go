package segment

import (
	"slices"
	"sort"
	"time"
)

// add registers a new Log, with one user.
func (p *paths) add(segs *Log) {
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

// samePath returns the Logs of a path, and the index of the first one. The caller holds mu.
func (p *paths) samePath(path string) (at int, list []*Log) {
	at = sort.Search(len(p.segments), func(i int) bool { return p.segments[i].path >= path })
	end := at
	for end < len(p.segments) && p.segments[end].path == path {
		end++
	}
	return at, p.segments[at:end]
}

// addUser counts one more user.
func (p *paths) addUser(segs *Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	segs.users++
}

// removeUser counts one user less; after the last one the Log is removed.
func (p *paths) removeUser(segs *Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if segs.users--; segs.users > 0 || segs.path == "" {
		return
	}
	at, list := p.samePath(segs.path)
	at += slices.Index(list, segs)
	p.segments = slices.Delete(p.segments, at, at+1)
}

// all returns the newest Log of each path.
func (p *paths) all() []*Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.CompactFunc(slices.Clone(p.segments), func(a, b *Log) bool { return a.path == b.path })
}

// each calls f for all Logs of the path of segs, including segs. The caller holds disk.
func (segs *Log) each(f func(*Log)) {
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

// claimWriting makes segs the Log that writes to the path. If others still do, it waits for
// claimTimeout at most, and then reports false.
func (segs *Log) claimWriting() bool {
	p := segs.paths
	if p == nil {
		return true
	}
	var timeout <-chan time.Time
	for {
		p.mu.Lock()
		_, list := p.samePath(segs.path)
		if !slices.ContainsFunc(list, func(one *Log) bool { return one != segs && one.writes }) {
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
func (p *paths) endWriting(segs *Log) {
	p.mu.Lock()
	if segs.writes && p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
	segs.writes = false
	p.mu.Unlock()
	p.removeUser(segs)
}

// alone reports whether segs is the only Log of the path.
func (segs *Log) alone() bool {
	n := 0
	segs.each(func(*Log) { n++ })
	return n <= 1
}

// setCompressing records which compressed file is being written; "": none.
func (segs *Log) setCompressing(name string) {
	if p := segs.paths; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.compressing = name
	}
}

// isCompressing reports whether name is the compressed file that is being written.
func (segs *Log) isCompressing(name string) bool {
	if segs.paths == nil {
		return false
	}
	segs.paths.mu.Lock()
	defer segs.paths.mu.Unlock()
	return segs.paths.compressing == name
}
