package logs

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links in a path are followed: as many as the kernel does.
const maxLinks = 40

// A pathResolver is a partly resolved path of a log file. What is behind a link may be on another
// file system, which may hang. So each step runs in a slot of its place.
type pathResolver struct {
	at    string // resolved part, without links
	rest  string // unresolved part; "": none
	links int    // links followed
}

func newPathResolver(path string) pathResolver {
	if !filepath.IsAbs(path) { // a sink has no path
		return pathResolver{at: path}
	}
	return pathResolver{at: "/", rest: strings.TrimPrefix(path, "/")}
}

// step returns the resolver with the next name of its rest resolved.
func (w pathResolver) step(isPoint func(path string) bool) pathResolver {
	name, rest, _ := strings.Cut(w.rest, "/")
	w.rest = strings.TrimLeft(rest, "/")
	next := filepath.Join(w.at, name) // in a path without links, .. is the directory above
	if !isPoint(next) && w.links < maxLinks {
		if target, err := os.Readlink(next); err == nil {
			w.links++
			if filepath.IsAbs(target) {
				w.at = "/"
			}
			w.rest = strings.Trim(target+"/"+w.rest, "/")
			return w
		}
	}
	w.at = next
	return w
}

// enter waits for a slot in the place of a log file. It returns nil if quit was closed first.
func (s *slots) enter(ch *segments, quit <-chan struct{}) *slot {
	var in *slot
	for w := ch.resolverFor(); ; w = ch.goOn(w.step(s.mounts.IsPoint)) {
		if p := s.placeOf(w); in == nil || in.place != p {
			in.release()
			if in = s.acquire(p, quit); in == nil {
				return nil
			}
		}
		if w.rest == "" {
			return in
		}
	}
}

// placeOf returns the place of the resolved part. It accesses no file.
func (s *slots) placeOf(w pathResolver) place {
	if device := s.mounts.Device(w.at); device != 0 {
		return place{device: device}
	}
	return place{directory: filepath.Dir(w.at)}
}

// resolverFor returns how far the path of the current file is resolved.
func (ch *segments) resolverFor() pathResolver {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.resolver != nil:
		return *ch.resolver
	case ch.gone:
		return pathResolver{at: ch.path}
	}
	return newPathResolver(ch.path)
}

// goOn stores and returns the resolver.
func (ch *segments) goOn(w pathResolver) pathResolver {
	var known *pathResolver
	if w.rest != "" || w.at != ch.path {
		copied := w
		known = &copied
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.resolver, ch.gone = known, true
	return w
}
