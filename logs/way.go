package logs

import (
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links on the way to a file are followed: as many as the kernel does.
const maxLinks = 40

// A way leads to a log file: how far it is known what its path means when links are followed. What lies behind a link may be on another
// file system, which may hang; so each step is made in a slot of the place where it is made.
type way struct {
	at    string // so far: a path without links
	rest  string // what follows it; "": nothing does
	links int    // that were followed
}

func newWay(path string) way {
	if !filepath.IsAbs(path) { // a sink's, which is none
		return way{at: path}
	}
	return way{at: "/", rest: strings.TrimPrefix(path, "/")}
}

// step returns the way with the next name of its rest looked at.
func (w way) step(isPoint func(path string) bool) way {
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

// enter waits for a slot in the place of a log file. It is nil if quit was closed before there was one.
func (s *slots) enter(ch *chain, quit <-chan struct{}) *slot {
	var in *slot
	for w := ch.wayTo(); ; w = ch.goOn(w.step(s.mounts.IsPoint)) {
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

// placeOf returns the place of what a way has come to. It touches nothing.
func (s *slots) placeOf(w way) place {
	if device := s.mounts.Device(w.at); device != 0 {
		return place{device: device}
	}
	return place{directory: filepath.Dir(w.at)}
}

// wayTo returns how far the way to the newest file is known.
func (ch *chain) wayTo() way {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case ch.way != nil:
		return *ch.way
	case ch.gone:
		return way{at: ch.path}
	}
	return newWay(ch.path)
}

// goOn notes and returns the way as it is known by now.
func (ch *chain) goOn(w way) way {
	var known *way
	if w.rest != "" || w.at != ch.path {
		copied := w
		known = &copied
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.way, ch.gone = known, true
	return w
}
