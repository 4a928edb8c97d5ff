package procs

import (
	"slices"
	"sync/atomic"

	"superd/logs"
)

// A watcher is a subscription to changes of [Supervisor.Status] or of the instances.
type watcher struct{ f func() }

// Watch calls f on the loop after the status or the last line of any instance has changed, once for
// all changes of a turn. Without watchers it costs nothing.
func (s *Supervisor) Watch(f func()) (cancel func()) {
	w := &watcher{f}
	s.watchers = append(s.watchers, w)
	if len(s.watchers) == 1 {
		for _, in := range s.registry.instances {
			s.watchLines(in)
		}
	}
	return func() {
		s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
		if len(s.watchers) == 0 {
			for _, in := range s.registry.instances {
				in.unwatchLines()
			}
		}
	}
}

// changed schedules a call of the watchers and the notifier, once a turn.
func (s *Supervisor) changed() {
	if !s.changePosted {
		s.changePosted = true
		s.scope.Post(s.notifyWatchers)
	}
}

func (s *Supervisor) notifyWatchers() {
	s.changePosted = false
	s.updateNotifier()
	for _, w := range slices.Clone(s.watchers) {
		w.f()
	}
}

// watchLines lets the collector of in report new lines, if there are watchers.
func (s *Supervisor) watchLines(in *instance) {
	if len(s.watchers) == 0 || in.cancelLineWatch != nil {
		return
	}
	var posted atomic.Bool // a report is posted to the loop
	in.cancelLineWatch = in.collector.Notify(func() {
		if posted.CompareAndSwap(false, true) {
			in.scope.Post(func() {
				posted.Store(false)
				s.changed()
			})
		}
	})
}

func (in *instance) unwatchLines() {
	if in.cancelLineWatch != nil {
		in.cancelLineWatch()
		in.cancelLineWatch = nil
	}
}

// An Output is the output of one instance.
type Output struct {
	Instance  string
	Collector *logs.Collector
}

// Outputs returns the output of the instances that names select, sorted. A name that selects
// nothing is an [UnknownNameError] or, with noneToo, ignored.
func (s *Supervisor) Outputs(names []string, noneToo bool) ([]Output, error) {
	selected, err := s.selectInstances(names)
	if err != nil && noneToo {
		selected = s.matchNames(names).instances
	} else if err != nil {
		return nil, err
	}
	all := make([]Output, len(selected))
	for i, in := range selected {
		all[i] = Output{in.name, &in.collector}
	}
	return all, nil
}

// WatchInstances calls f on the loop after an instance was added or got a separate log for standard
// error, once for all changes of a turn.
func (s *Supervisor) WatchInstances(f func()) (cancel func()) {
	w := &watcher{f}
	s.instanceWatchers = append(s.instanceWatchers, w)
	return func() {
		s.instanceWatchers = slices.DeleteFunc(s.instanceWatchers, func(other *watcher) bool { return other == w })
	}
}

// notifyInstanceWatchers calls the instance watchers, once a turn.
func (s *Supervisor) notifyInstanceWatchers() {
	if len(s.instanceWatchers) == 0 || s.addedPosted {
		return
	}
	s.addedPosted = true
	s.scope.Post(func() {
		s.addedPosted = false
		for _, w := range slices.Clone(s.instanceWatchers) {
			w.f()
		}
	})
}
