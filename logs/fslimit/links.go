package fslimit

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// maxLinks is how many links in a path are followed: as many as the kernel does.
const maxLinks = 40

// Links is what is known of the links in a path. The target of a link may be on another file
// system, which may hang. So each step to resolve one runs in a slot of the file system where it
// is. The zero Links is for a path of which nothing is known. It is safe for concurrent use.
type Links struct {
	known atomic.Pointer[resolution] // nil: nothing; noLinks: the path has no links
}

// A resolution is a partly resolved path.
type resolution struct {
	at    string // resolved part, without links
	rest  string // unresolved part; "": none
	links int    // links followed
}

// noLinks stands for the resolution of any path without links. It is never modified.
var noLinks resolution

// AcquirePath waits for a slot in the file system of a path, of which links are those known. It
// returns nil if stop was closed first.
func (l *Limiter) AcquirePath(path string, links *Links, stop <-chan struct{}) *Slot {
	var in *Slot
	for r := links.of(path); ; r = links.store(path, r.step(l.mounts.IsPoint)) {
		if want := l.fileSystemOf(r); in == nil || in.FileSystem != want {
			in.Release()
			if in = l.Acquire(want, stop); in == nil {
				return nil
			}
		}
		if r.rest == "" {
			return in
		}
	}
}

// FileSystemOf returns the file system of a path, as far as its links are known. It accesses no
// file.
func (l *Limiter) FileSystemOf(path string, links *Links) FileSystem {
	return l.fileSystemOf(links.of(path))
}

// fileSystemOf returns the file system of the resolved part.
func (l *Limiter) fileSystemOf(r resolution) FileSystem {
	if device := l.mounts.Device(r.at); device != 0 {
		return FileSystem{device: device}
	}
	return FileSystem{path: filepath.Dir(r.at)}
}

// of returns how far the path is resolved.
func (k *Links) of(path string) resolution {
	switch known := k.known.Load(); known {
	case nil:
		return newResolution(path)
	case &noLinks:
		return resolution{at: path}
	default:
		return *known
	}
}

// store stores and returns a resolution of the path.
func (k *Links) store(path string, r resolution) resolution {
	known := &noLinks
	if r.rest != "" || r.at != path {
		copied := r
		known = &copied
	}
	k.known.Store(known)
	return r
}

func newResolution(path string) resolution {
	if !filepath.IsAbs(path) { // a sink has no path
		return resolution{at: path}
	}
	return resolution{at: "/", rest: strings.TrimPrefix(path, "/")}
}

// step resolves the next name of the rest.
func (r resolution) step(isPoint func(path string) bool) resolution {
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
