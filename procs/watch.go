package procs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"superd/logs"
	"superd/procs/eventlog"
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

// An Output is what one instance prints.
type Output struct {
	Instance string
	Capture  *logs.Capture
}

// Outputs returns the output of the instances that names select, by name. A name that selects nothing is an [UnknownNameError], unless
// none need be there.
func (s *Supervisor) Outputs(names []string, noneToo bool) ([]Output, error) {
	selected, err := s.selectInstances(names)
	if err != nil && noneToo {
		selected = s.find(names).instances
	} else if err != nil {
		return nil, err
	}
	all := make([]Output, len(selected))
	for i, in := range selected {
		all[i] = Output{in.name, &in.capture}
	}
	return all, nil
}

// WatchInstances calls f on the loop after an instance was added, or has got a log of its own for standard error, once for all of a turn.
func (s *Supervisor) WatchInstances(f func()) (cancel func()) {
	w := &watcher{f}
	s.memberWatchers = append(s.memberWatchers, w)
	return func() {
		s.memberWatchers = slices.DeleteFunc(s.memberWatchers, func(other *watcher) bool { return other == w })
	}
}

// tellAdded tells those who want to know that there is another instance, or log of one.
func (s *Supervisor) tellAdded() {
	if len(s.memberWatchers) == 0 || s.addedPosted {
		return
	}
	s.addedPosted = true
	s.scope.Post(func() {
		s.addedPosted = false
		for _, w := range slices.Clone(s.memberWatchers) {
			w.f()
		}
	})
}

// tellLoss records that output was dropped. From any goroutine.
func (s *Supervisor) tellLoss(l logs.Loss) {
	if events := s.options.Events; events != nil {
		events.Append(eventlog.Event{At: time.Now(), Kind: eventlog.Output, Instance: l.Instance, Program: l.Program, Run: l.Run, Reason: l.Text})
	}
}

// tellOutage records that output does not get into its log, or does again, and has those told who follow the status. From any goroutine.
func (s *Supervisor) tellOutage(o logs.Outage, over bool) {
	now := time.Now()
	if events := s.options.Events; events != nil {
		e := eventlog.Event{At: now, Kind: eventlog.Outage, Instance: o.Instance, Program: o.Program, Run: o.Run, State: "begun"}
		if e.Reason = "output does not get into " + o.Log + ": " + o.Reason; over {
			e.State, e.Reason = "over", fmt.Sprintf("output gets into its log again, after %s", span(now.Sub(o.Since)))
		}
		events.Append(e)
	}
	s.scope.Post(s.changed)
}

// tellRun records where the output of a run begins in its log. From any goroutine.
func (s *Supervisor) tellRun(r logs.RunBegin) {
	if events := s.options.Events; events != nil {
		events.Append(eventlog.Event{At: time.Now(), Kind: eventlog.Print, Reason: "first output", Instance: r.Instance, Program: r.Program, Run: r.Run, Place: r.At.String()})
	}
}
