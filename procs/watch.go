package procs

import (
	"slices"
	"sync/atomic"
)

// A watcher is told when something that [Supervisor.Status] shows has changed.
type watcher struct{ f func() }

// Watch calls f on the loop after any status or last line has changed, once for all the changes of a turn. While
// nobody watches it costs nothing.
func (s *Supervisor) Watch(f func()) (cancel func()) {
	w := &watcher{f}
	s.watchers = append(s.watchers, w)
	if len(s.watchers) == 1 {
		for _, in := range s.instances {
			s.watchLines(in)
		}
	}
	return func() {
		s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
		if len(s.watchers) == 0 {
			for _, in := range s.instances {
				in.unwatchLines()
			}
		}
	}
}

// changed has those who follow the state told about it, once a turn.
func (s *Supervisor) changed() {
	if !s.changePosted {
		s.changePosted = true
		s.scope.Post(s.tellChange)
	}
}

func (s *Supervisor) tellChange() {
	s.changePosted = false
	s.tellNotifier()
	for _, w := range slices.Clone(s.watchers) {
		w.f()
	}
}

// watchLines has the log writers of in report new lines, if anybody watches.
func (s *Supervisor) watchLines(in *instance) {
	if len(s.watchers) == 0 || in.cancelLines != nil {
		return
	}
	var posted atomic.Bool // one report is on its way to the loop
	in.cancelLines = in.capture.Notify(func() {
		if posted.CompareAndSwap(false, true) {
			in.scope.Post(func() {
				posted.Store(false)
				s.changed()
			})
		}
	})
}

func (in *instance) unwatchLines() {
	if in.cancelLines != nil {
		in.cancelLines()
		in.cancelLines = nil
	}
}
