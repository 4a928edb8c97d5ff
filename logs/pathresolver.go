package logs

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links in a path are followed: as many as the kernel does.
const maxLinks = 40

// A pathResolver is a partly resolved path of a log file. The target of a link may be on another
// file system, which may hang. So each step runs in a slot of the file system where it is.
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

// step resolves the next name of the rest.
func (r pathResolver) step(isPoint func(path string) bool) pathResolver {
	name, rest, _ := strings.Cut(r.rest, "/")
	r.rest = strings.TrimLeft(rest, "/")
	next := filepath.Join(r.at, name) // in a path without links, .. is the directory above
	if !isPoint(next) && r.links < maxLinks {
		if target, err := os.Readlink(next); err == nil {
			r.links++
			if filepath.IsAbs(target) {
				r.at = "/"
			}
			r.rest = strings.Trim(target+"/"+r.rest, "/")
			return r
		}
	}
	r.at = next
	return r
}

// acquireFor waits for a slot in the file system of a log file. It returns nil if stop was closed
// first.
func (s *slots) acquireFor(segs *segments, stop <-chan struct{}) *slot {
	var in *slot
	for resolver := segs.pathResolver(); ; resolver = segs.storeResolver(resolver.step(s.mounts.IsPoint)) {
		if p := s.fileSystemOf(resolver); in == nil || in.fileSystem != p {
			in.release()
			if in = s.acquire(p, stop); in == nil {
				return nil
			}
		}
		if resolver.rest == "" {
			return in
		}
	}
}

// fileSystemOf returns the file system of the resolved part. It accesses no file.
func (s *slots) fileSystemOf(resolver pathResolver) fileSystem {
	if device := s.mounts.Device(resolver.at); device != 0 {
		return fileSystem{device: device}
	}
	return fileSystem{directory: filepath.Dir(resolver.at)}
}

// pathResolver returns how far the path of the current file is resolved.
func (segs *segments) pathResolver() pathResolver {
	segs.mu.Lock()
	defer segs.mu.Unlock()
	switch {
	case segs.resolver != nil:
		return *segs.resolver
	case segs.resolved:
		return pathResolver{at: segs.path}
	}
	return newPathResolver(segs.path)
}

// storeResolver stores and returns the resolver.
func (segs *segments) storeResolver(w pathResolver) pathResolver {
	var stored *pathResolver
	if w.rest != "" || w.at != segs.path {
		copied := w
		stored = &copied
	}
	segs.mu.Lock()
	defer segs.mu.Unlock()
	segs.resolver, segs.resolved = stored, true
	return w
}
